#!/bin/bash
bash /app/tool > /app/said
