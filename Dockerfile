# Airflow with this project in it; used by docker-compose.yml for every Airflow service.
FROM apache/airflow:3.3.2-python3.11
USER root
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*
USER airflow
# The locked dependencies first: a layer of their own, which a change of the code leaves alone.
COPY --chown=airflow:0 requirements/runtime.lock /tmp/runtime.lock
RUN pip install --no-cache-dir --require-hashes -r /tmp/runtime.lock
COPY --chown=airflow:0 . /opt/kafka-reassignment
RUN pip install --no-cache-dir --no-deps /opt/kafka-reassignment
RUN kafka-reassignment warm-up
