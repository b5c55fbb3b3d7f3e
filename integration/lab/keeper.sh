#!/bin/sh
# Removes the namespaces of a test process that could not do so itself because it was killed, was interrupted, or reached its time
# limit. The first HostNamespace of a process starts a keeper in its own session. $1 is the process ID, and $2 the prefix of its
# namespaces' names. A keeper may be killed too, so each one first removes the namespaces of all test processes that have ended.
# It is a shell script that runs C programs, because it waits beside each test file, also in emulated machines, which are slow.
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
