"""Moto's server, one request at a time: ``python moto_server.py PORT``.

Moto looks whether an object exists and writes it in two steps, so of two writers at the same moment both may create it
(moto 5.2; S3 promises that one does). Its own command answers requests in threads and has no option against that.
"""

import sys
from threading import Lock

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

moto = DomainDispatcherApplication(create_backend_app)
one_at_a_time = Lock()


def answer(environ, start_response):
    with one_at_a_time:
        return moto(environ, start_response)


if __name__ == "__main__":
    run_simple("127.0.0.1", int(sys.argv[1]), answer, threaded=True)
