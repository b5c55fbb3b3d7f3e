#!/bin/busybox sh
# Process 1 of the machine of power-cuts.ts, all of which but one disk is in its initial RAM disk. Plugins work on that disk, /var/lib/cni,
# until the machine is killed from outside. A line on the console is "> VERB PLUGIN CONTAINER" before a call, and
# "< VERB PLUGIN CONTAINER EXIT-CODE ANSWER" after it; one that begins with "! " is a fault. From the kernel's command line: the file system fs, the number of the boot,
# the seed of its chance, and living: "PLUGIN,CONTAINER" of each attachment that earlier boots have left.
set -f # an answer holds brackets
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /run/netns /run/cni /run/flannel /var/lib/cni /var/lib/misc /var/run /etc
for module in $(set +f && echo /modules/*.ko); do insmod "$module"; done
ip link set lo up
disk=/var/lib/cni
mount -t "$fs" /dev/vda $disk || echo "! the disk cannot be mounted"
. /dhcp-scene.sh
udhcpd -f /etc/udhcpd.conf >/run/udhcpd 2>&1 &
printf '%s\n' FLANNEL_NETWORK=10.68.0.0/16 FLANNEL_SUBNET=10.68.0.1/28 FLANNEL_MTU=1450 FLANNEL_IPMASQ=false >/run/flannel/subnet.env

call() { # verb, plugin, container
  echo "> $1 $2 $3"
  case $2 in flannel) interface=eth1 ;; *) interface=eth0 ;; esac # its delegate makes none, and an ADD wants a free name
  CNI_COMMAND=$1 CNI_CONTAINERID=$3 CNI_IFNAME=$interface CNI_NETNS=/run/netns/pod CNI_PATH=/ "/$2" <"/$2.json" >"/run/$2-$3" 2>/dev/null
  echo "< $1 $2 $3 $?" $(cat "/run/$2-$3")
  rm "/run/$2-$3"
}

chance() { # below; the answer is in $answer, since a subshell would not move on
  state=$(((state * 1103515245 + 12345) & 0x7fffffff))
  answer=$((state / 65536 % $1))
}

work() { # plugin, prefix of its containers, how many live at a time at most, how many milliseconds it waits after a call at most
  state=$((seed + ${#2} * 7919 + $(printf %d "'$2")))
  next=0
  oldest=0
  while :; do
    chance "$3"
    if [ "$answer" -lt $((next - oldest)) ] && chance 2 && [ "$answer" = 0 ] || [ $((next - oldest)) = "$3" ]; then
      call DEL "$1" "$2$boot-$oldest"
      oldest=$((oldest + 1))
    else
      call ADD "$1" "$2$boot-$next"
      next=$((next + 1))
    fi
    chance $(($4 + 1))
    [ "$answer" = 0 ] || usleep $((answer * 1000))
  done
}

disturb() { # other programs put files on the disk: of their own, of the store, everything
  state=$seed
  while :; do
    chance 12
    case $answer in
      0) sync -f $disk ;;
      [1-6]) dd if=/dev/zero of=$disk/other bs=4k count=4 conv=fsync 2>/dev/null ;;
      *)
        set -- $(find $disk/networks -type f)
        chance $(($# + 1))
        shift "$answer"
        [ $# = 0 ] || sync -d "$1" 2>/dev/null
        ;;
    esac
    chance 400
    usleep $((answer * 1000))
  done
}

for each in $living; do call DEL "${each%,*}" "${each#*,}"; done
for plugin in host-local flannel; do call GC $plugin all; done
work host-local a 3 0 &
work host-local b 3 0 &
work flannel f 3 0 &
work dhcp d 1 3000 & # that a lease is there for a while
disturb
