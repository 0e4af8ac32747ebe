# Airflow with this project in it; used by docker-compose.yml for every Airflow service.
FROM apache/airflow:3.3.2-python3.11
USER root
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*
USER airflow
# The locked dependencies first: a layer of their own, which a change of the code leaves alone.
COPY --chown=airflow:0 pyproject.toml uv.lock /tmp/lock/
COPY --chown=airflow:0 lab/pyproject.toml /tmp/lock/lab/
RUN pip install --no-cache-dir 'uv>=0.9' \
    && uv export -q --frozen --no-dev --no-emit-workspace --project /tmp/lock -o /tmp/lock/requirements.txt \
    && pip install --no-cache-dir --require-hashes -r /tmp/lock/requirements.txt
COPY --chown=airflow:0 . /opt/kafka-reassignment
RUN pip install --no-cache-dir --no-deps /opt/kafka-reassignment
RUN kafka-reassignment warm-up
