#!/bin/sh
# Removes the namespaces of a test process that ended without doing so: killed, interrupted, or at its time limit. The first HostNamespace
# of a process starts one, outside of its session. $1 is the process, $2 the prefix of its namespaces' names. A keeper may be killed
# as well: each one begins with the namespaces of all test processes that no longer live.
# Programs in C: it waits beside each test file, and in virtual machines, where a call costs a hundred times as much.
remove() {
  for file in "/run/netns/$1"*; do
    [ -e "$file" ] || continue
    name=${file##*/}
    while pids=$(ip netns pids "$name") && [ -n "$pids" ]; do
      kill -KILL $pids
      sleep 0.05
    done
    ip netns delete "$name"
  done
}
for file in /run/netns/cnit-[0-9]*-*; do
  pid=${file#/run/netns/cnit-}
  pid=${pid%%-*}
  [ -e "/proc/$pid" ] || [ ! -e "$file" ] || remove "cnit-$pid-"
done
tail --pid="$1" --sleep-interval=1 --follow /dev/null
remove "$2"
