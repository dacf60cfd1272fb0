#!/bin/bash
python - <<'END'
import csv
with open("/app/prices.csv") as file:
    total = sum(float(price) for _, price in csv.reader(file))
with open("/app/total.txt", "w") as file:
    file.write(f"{total:.2f}")
END
