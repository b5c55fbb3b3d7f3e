// What every start of a compiled executable costs at least: the floor under each of our rows.
process.exitCode = 0
