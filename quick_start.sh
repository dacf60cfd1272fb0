#!/bin/sh
exec make -C "$(dirname "$0")" demo
