"""llama.cpp's server for `serving.py`: prints its address, and ends with its standard input."""

import sys

import xllamacpp

__all__: list[str] = []


def main() -> None:
    file, threads, slots, context = sys.argv[1], *map(int, sys.argv[2:5])
    params = xllamacpp.CommonParams()
    params.model.path = file
    params.n_parallel = slots
    params.n_ctx = slots * context
    params.cpuparams.n_threads = threads
    params.port = 0
    params.verbosity = -1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
