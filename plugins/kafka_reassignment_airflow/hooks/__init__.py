"""Hooks: they read Airflow's connections and configuration, and open what is behind them."""

# With [core] lazy_load_plugins = False this loads our plugin, which imports everything here. So it must not be one of
# these modules, half imported, that asks for Airflow first: the command line begins with one.
import airflow.sdk  # noqa: F401
