#!/bin/bash
touch /out/one /out/two
