#!/bin/sh
# Removes the namespaces of a test process that ended without doing so: killed, interrupted, or a test ran into its time limit. Started once
# per test process, outside of its session, by the first HostNamespace. $1 is the process, $2 what the names of its namespaces begin with.
# Programs in C: it waits beside each test file, and in virtual machines, where a call costs a hundred times as much.
tail --pid="$1" --sleep-interval=1 --follow /dev/null
for file in "/run/netns/$2"*; do
  [ -e "$file" ] || continue
  name=${file##*/}
  while pids=$(ip netns pids "$name") && [ -n "$pids" ]; do
    kill -KILL $pids
    sleep 0.05
  done
  ip netns delete "$name"
done
