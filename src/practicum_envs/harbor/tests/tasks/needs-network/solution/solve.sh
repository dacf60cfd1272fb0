#!/bin/bash
date > /app/now
