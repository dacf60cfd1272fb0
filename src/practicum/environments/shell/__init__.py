"""Shell work: tasks done with commands in a sandbox, checked by the state they leave."""
