#!/bin/bash
engine start
