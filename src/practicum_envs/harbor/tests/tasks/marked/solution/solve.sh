#!/bin/bash
chmod 400 /root/readme.txt
