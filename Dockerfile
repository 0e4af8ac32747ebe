# Airflow with this project in it; docker-compose.yml runs Airflow, Spark and the demo from it.
FROM apache/airflow:3.3.2-python3.11
USER root
# Debian's default Java is 17 on bookworm and 21 on trixie: Spark takes both.
RUN apt-get update \
    && apt-get install -y --no-install-recommends default-jre-headless \
    && rm -rf /var/lib/apt/lists/* \
    # Docker gives a new volume the owner of the folder it is first mounted on.
    && install -d -o airflow -g 0 -m 0775 /opt/volumes /opt/volumes/ca /opt/volumes/keys /opt/volumes/store
USER airflow
# The locked dependencies first: a layer of their own, which a change of the code leaves alone.
COPY --chown=airflow:0 requirements/runtime.lock /tmp/runtime.lock
RUN pip install --no-cache-dir --require-hashes -r /tmp/runtime.lock
COPY --chown=airflow:0 pyproject.toml README.md CHANGELOG.md LICENSE /opt/kafka-reassignment/
COPY --chown=airflow:0 include /opt/kafka-reassignment/include
COPY --chown=airflow:0 plugins /opt/kafka-reassignment/plugins
COPY --chown=airflow:0 dags /opt/kafka-reassignment/dags
# pyproject.toml names the lab as a member of its workspace: uv builds nothing where that has no pyproject.toml. pip does.
COPY --chown=airflow:0 lab/pyproject.toml /opt/kafka-reassignment/lab/pyproject.toml
RUN pip install --no-cache-dir --no-deps /opt/kafka-reassignment && kafka-reassignment warm-up
# For the demo and the keys of the secured cluster, which run from this folder.
COPY --chown=airflow:0 lab /opt/kafka-reassignment/lab
