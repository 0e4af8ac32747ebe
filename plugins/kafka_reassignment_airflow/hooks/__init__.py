"""Hooks: they read Airflow's connections and configuration, and open what is behind them."""
