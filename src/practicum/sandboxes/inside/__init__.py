"""The first process of a sandbox; `program` joins these modules into one program."""
