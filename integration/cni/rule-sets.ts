/**
 * The rules of another program on a node, in the form in which the program loads them. The chains, their order and the
 * kinds of rules are those of docker 27, ufw 0.36, kube-proxy 1.31, netavark 1.12, firewalld 2.1, Calico 3.28 and
 * Cilium 1.16. Names and addresses are invented.
 */
export interface RuleSet {
  /** Input for `iptables-restore`. */
  readonly iptables?: string
  /** Input for `nft -f`. */
  readonly nft?: string
  /** A shell script that adds the program's links, routes and routing rules. */
  readonly setUp?: string
}

/**
 * Returns docker's rules. `user` contains the rules with which the node's operator accepts containers, as docker's
 * documentation says.
 */
const docker = (user: string) => `
*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:DOCKER - [0:0]
:DOCKER-ISOLATION-STAGE-1 - [0:0]
:DOCKER-ISOLATION-STAGE-2 - [0:0]
:DOCKER-USER - [0:0]
-A FORWARD -j DOCKER-USER
-A FORWARD -j DOCKER-ISOLATION-STAGE-1
-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -o docker0 -j DOCKER
-A FORWARD -i docker0 ! -o docker0 -j ACCEPT
-A FORWARD -i docker0 -o docker0 -j ACCEPT
-A DOCKER -d 172.17.0.2/32 ! -i docker0 -o docker0 -p tcp -m tcp --dport 80 -j ACCEPT
-A DOCKER ! -i docker0 -o docker0 -j DROP
-A DOCKER-ISOLATION-STAGE-1 -i docker0 ! -o docker0 -j DOCKER-ISOLATION-STAGE-2
-A DOCKER-ISOLATION-STAGE-1 -j RETURN
-A DOCKER-ISOLATION-STAGE-2 -o docker0 -j DROP
-A DOCKER-ISOLATION-STAGE-2 -j RETURN
${user}-A DOCKER-USER -j RETURN
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:INPUT ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:DOCKER - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A OUTPUT ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j DOCKER
-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE
-A POSTROUTING -s 172.17.0.2/32 -d 172.17.0.2/32 -p tcp -m tcp --dport 80 -j MASQUERADE
-A DOCKER -i docker0 -j RETURN
-A DOCKER ! -i docker0 -p tcp -m tcp --dport 8080 -j DNAT --to-destination 172.17.0.2:80
COMMIT
`
const dockerLinks = "ip link add docker0 type bridge; ip address add 172.17.0.1/16 dev docker0; ip link set docker0 up"

const ufw = (policy: string, user: string) => `
*filter
:INPUT DROP [0:0]
:FORWARD ${policy} [0:0]
:OUTPUT ACCEPT [0:0]
:ufw-before-logging-forward - [0:0]
:ufw-before-forward - [0:0]
:ufw-after-forward - [0:0]
:ufw-after-logging-forward - [0:0]
:ufw-reject-forward - [0:0]
:ufw-track-forward - [0:0]
:ufw-before-input - [0:0]
:ufw-user-input - [0:0]
:ufw-user-forward - [0:0]
:ufw-user-limit - [0:0]
:ufw-user-limit-accept - [0:0]
:ufw-skip-to-policy-forward - [0:0]
:ufw-not-local - [0:0]
-A INPUT -j ufw-before-input
-A FORWARD -j ufw-before-logging-forward
-A FORWARD -j ufw-before-forward
-A FORWARD -j ufw-after-forward
-A FORWARD -j ufw-after-logging-forward
-A FORWARD -j ufw-reject-forward
-A FORWARD -j ufw-track-forward
-A ufw-before-input -i lo -j ACCEPT
-A ufw-before-input -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A ufw-before-input -m conntrack --ctstate INVALID -j DROP
-A ufw-before-input -p icmp -m icmp --icmp-type 8 -j ACCEPT
-A ufw-before-input -j ufw-not-local
-A ufw-before-input -j ufw-user-input
-A ufw-not-local -m addrtype --dst-type LOCAL -j RETURN
-A ufw-not-local -j DROP
-A ufw-before-forward -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A ufw-before-forward -p icmp -m icmp --icmp-type 3 -j ACCEPT
-A ufw-before-forward -j ufw-user-forward
-A ufw-skip-to-policy-forward -j ${policy}
-A ufw-user-limit -j REJECT --reject-with icmp-port-unreachable
-A ufw-user-limit-accept -j ACCEPT
${user}COMMIT
`

const kubeProxyIptables = `
*filter
:KUBE-EXTERNAL-SERVICES - [0:0]
:KUBE-FIREWALL - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
:KUBE-SERVICES - [0:0]
-A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
-A INPUT -m comment --comment "kubernetes health check service ports" -j KUBE-NODEPORTS
-A INPUT -j KUBE-FIREWALL
-A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -j KUBE-FIREWALL
-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet connections" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A KUBE-SERVICES -d 10.96.0.9/32 -p tcp -m comment --comment "shop/empty has no endpoints" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable
COMMIT
*nat
:KUBE-MARK-MASQ - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-SEP-A - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-WEB - [0:0]
:KUBE-EXT-WEB - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0
-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE
-A KUBE-NODEPORTS -p tcp -m comment --comment "shop/web" -m tcp --dport 30080 -j KUBE-EXT-WEB
-A KUBE-EXT-WEB -j KUBE-MARK-MASQ
-A KUBE-EXT-WEB -j KUBE-SVC-WEB
-A KUBE-SERVICES -d 10.96.0.8/32 -p tcp -m comment --comment "shop/web cluster IP" -m tcp --dport 80 -j KUBE-SVC-WEB
-A KUBE-SERVICES -m comment --comment "kubernetes service nodeports" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
-A KUBE-SVC-WEB ! -s 10.85.0.0/16 -d 10.96.0.8/32 -p tcp -m tcp --dport 80 -j KUBE-MARK-MASQ
-A KUBE-SVC-WEB -m comment --comment "shop/web -> 10.85.0.2:80" -j KUBE-SEP-A
-A KUBE-SEP-A -s 10.85.0.2/32 -m comment --comment "shop/web" -j KUBE-MARK-MASQ
-A KUBE-SEP-A -p tcp -m comment --comment "shop/web" -m tcp -j DNAT --to-destination 10.85.0.2:80
COMMIT
`

/**
 * kube-proxy's rules in IPVS mode, without rules that match an ipset. The addresses of services are on a link that is
 * down.
 */
const kubeProxyIpvs = `
*filter
:KUBE-FORWARD - [0:0]
:KUBE-NODE-PORT - [0:0]
:KUBE-IPVS-FILTER - [0:0]
:KUBE-SOURCE-RANGES-FIREWALL - [0:0]
-A INPUT -m comment --comment "kubernetes ipvs access filter" -j KUBE-IPVS-FILTER
-A INPUT -m comment --comment "kubernetes health check rules" -j KUBE-NODE-PORT
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A KUBE-SOURCE-RANGES-FIREWALL -j DROP
COMMIT
*nat
:KUBE-LOAD-BALANCER - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-SERVICES - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
-A KUBE-LOAD-BALANCER -j KUBE-MARK-MASQ
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0
-A KUBE-POSTROUTING -j MASQUERADE
-A KUBE-SERVICES -s 127.0.0.0/8 -j RETURN
COMMIT
`
const ipvsLink = "ip link add kube-ipvs0 type bridge; ip address add 10.96.0.1/32 dev kube-ipvs0"

const kubeProxyNft = `
table ip kube-proxy {
  comment "rules for kube-proxy"
  set cluster-ips {
    type ipv4_addr
    elements = { 10.96.0.8 }
  }
  map firewall-ips {
    type ipv4_addr . inet_proto . inet_service : verdict
  }
  map no-endpoint-services {
    type ipv4_addr . inet_proto . inet_service : verdict
    elements = { 10.96.0.9 . tcp . 80 : goto reject-chain }
  }
  map no-endpoint-nodeports {
    type inet_proto . inet_service : verdict
  }
  map service-ips {
    type ipv4_addr . inet_proto . inet_service : verdict
    elements = { 10.96.0.8 . tcp . 80 : goto service-WEB }
  }
  map service-nodeports {
    type inet_proto . inet_service : verdict
    elements = { tcp . 30080 : goto service-WEB }
  }
  chain reject-chain {
    reject
  }
  chain mark-for-masquerade {
    meta mark set meta mark | 0x4000
  }
  chain endpoint-A {
    ip saddr 10.85.0.2 jump mark-for-masquerade
    meta l4proto tcp dnat to 10.85.0.2:80
  }
  chain service-WEB {
    ip daddr 10.96.0.8 tcp dport 80 ip saddr != 10.85.0.0/16 jump mark-for-masquerade
    goto endpoint-A
  }
  chain services {
    ip daddr . meta l4proto . th dport vmap @service-ips
    fib daddr type local ip daddr != 127.0.0.0/8 meta l4proto . th dport vmap @service-nodeports
  }
  chain service-endpoints-check {
    ip daddr . meta l4proto . th dport vmap @no-endpoint-services
    fib daddr type local ip daddr != 127.0.0.0/8 meta l4proto . th dport vmap @no-endpoint-nodeports
  }
  chain cluster-ips-check {
    ip daddr @cluster-ips reject comment "Reject traffic to invalid ports of ClusterIPs"
    ip daddr 10.96.0.0/12 drop comment "Drop traffic to unallocated ClusterIPs"
  }
  chain firewall-check {
    ip daddr . meta l4proto . th dport vmap @firewall-ips
  }
  chain masquerading {
    meta mark & 0x4000 == 0 return
    meta mark set meta mark & 0xffffbfff
    masquerade fully-random
  }
  chain filter-prerouting {
    type filter hook prerouting priority dstnat - 10; policy accept;
    ct state new jump firewall-check
  }
  chain filter-input {
    type filter hook input priority -110; policy accept;
    ct state new jump service-endpoints-check
  }
  chain filter-forward {
    type filter hook forward priority -110; policy accept;
    ct state new jump service-endpoints-check
    ct state new jump cluster-ips-check
  }
  chain nat-prerouting {
    type nat hook prerouting priority dstnat; policy accept;
    jump services
  }
  chain nat-output {
    type nat hook output priority -100; policy accept;
    jump services
  }
  chain nat-postrouting {
    type nat hook postrouting priority srcnat; policy accept;
    jump masquerading
  }
}
`

const netavark = `
table inet netavark {
  chain INPUT {
    type filter hook input priority filter; policy accept;
    ip saddr 10.89.0.0/24 meta l4proto { tcp, udp } th dport 53 accept
  }
  chain FORWARD {
    type filter hook forward priority filter; policy accept;
    ct state invalid drop
    jump NETAVARK-ISOLATION-1
    ip daddr 10.89.0.0/24 ct state related,established accept
    ip saddr 10.89.0.0/24 accept
  }
  chain POSTROUTING {
    type nat hook postrouting priority srcnat; policy accept;
    meta mark & 0x00002000 == 0x00002000 masquerade
    ip saddr 10.89.0.0/24 jump nv_2f259bab_10_89_0_0_nm24
  }
  chain PREROUTING {
    type nat hook prerouting priority dstnat; policy accept;
    fib daddr type local jump NETAVARK-HOSTPORT-DNAT
  }
  chain OUTPUT {
    type nat hook output priority -100; policy accept;
    fib daddr type local jump NETAVARK-HOSTPORT-DNAT
  }
  chain NETAVARK-HOSTPORT-DNAT {
    tcp dport 8090 jump nv_2f259bab_10_89_0_0_nm24_dnat
  }
  chain NETAVARK-HOSTPORT-SETMARK {
    meta mark set meta mark | 0x00002000
  }
  chain NETAVARK-ISOLATION-1 {
    iifname "podman1" oifname != "podman1" jump NETAVARK-ISOLATION-2
  }
  chain NETAVARK-ISOLATION-2 {
    oifname "podman1" drop
  }
  chain nv_2f259bab_10_89_0_0_nm24 {
    ip daddr 10.89.0.0/24 accept
    ip daddr != 224.0.0.0/4 masquerade
  }
  chain nv_2f259bab_10_89_0_0_nm24_dnat {
    ip saddr 10.89.0.0/24 tcp dport 8090 jump NETAVARK-HOSTPORT-SETMARK
    tcp dport 8090 dnat ip to 10.89.0.2:80
  }
}
`

/** firewalld with the bridge in zone "trusted". */
const firewalld = `
table inet firewalld {
  chain filter_PREROUTING {
    type filter hook prerouting priority filter + 10; policy accept;
    icmpv6 type { nd-router-advert, nd-neighbor-solicit } accept
    meta nfproto ipv6 fib saddr . mark . iif oif missing drop
  }
  chain filter_INPUT {
    type filter hook input priority filter + 10; policy accept;
    ct state { established, related } accept
    ct status dnat accept
    iifname "lo" accept
    ct state invalid drop
    jump filter_INPUT_ZONES
    reject with icmpx admin-prohibited
  }
  chain filter_FORWARD {
    type filter hook forward priority filter + 10; policy accept;
    ct state { established, related } accept
    ct status dnat accept
    iifname "lo" accept
    ct state invalid drop
    ip6 daddr { ::/96, ::ffff:0.0.0.0/96 } reject with icmpv6 addr-unreachable
    jump filter_FORWARD_ZONES
    reject with icmpx admin-prohibited
  }
  chain filter_INPUT_ZONES {
    iifname "cni0" goto filter_IN_trusted
    goto filter_IN_public
  }
  chain filter_IN_trusted {
    accept
  }
  chain filter_IN_public {
    tcp dport 22 accept
    meta l4proto { icmp, ipv6-icmp } accept
  }
  chain filter_FORWARD_ZONES {
    iifname "cni0" goto filter_FWD_trusted
    goto filter_FWD_public
  }
  chain filter_FWD_trusted {
    accept
  }
  chain filter_FWD_public {
    meta l4proto { icmp, ipv6-icmp } accept
  }
}
`

const calico = `
*filter
:cali-FORWARD - [0:0]
:cali-INPUT - [0:0]
:cali-from-wl-dispatch - [0:0]
:cali-to-wl-dispatch - [0:0]
:cali-fw-cali0123 - [0:0]
:cali-from-host-endpoint - [0:0]
-A INPUT -m comment --comment "cali:Cz_u1IQiXIMmKD4c" -j cali-INPUT
-A FORWARD -m comment --comment "cali:wUHhoiAYhphO9Mso" -j cali-FORWARD
-A FORWARD -m comment --comment "cali:S93hcgKJrXEqnTfs" -m mark --mark 0x10000/0x10000 -j ACCEPT
-A cali-FORWARD -j MARK --set-xmark 0x0/0xe0000
-A cali-FORWARD -m mark --mark 0x0/0x10000 -j cali-from-host-endpoint
-A cali-FORWARD -i cali+ -j cali-from-wl-dispatch
-A cali-FORWARD -o cali+ -j cali-to-wl-dispatch
-A cali-from-wl-dispatch -i cali0123 -g cali-fw-cali0123
-A cali-from-wl-dispatch -m comment --comment "Unknown interface" -j DROP
-A cali-to-wl-dispatch -m comment --comment "Unknown interface" -j DROP
-A cali-fw-cali0123 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A cali-fw-cali0123 -m conntrack --ctstate INVALID -j DROP
-A cali-fw-cali0123 -m comment --comment "Drop if no profiles matched" -j DROP
COMMIT
*nat
:cali-POSTROUTING - [0:0]
:cali-PREROUTING - [0:0]
-A PREROUTING -m comment --comment "cali:6gwbT8clXdHdC1b1" -j cali-PREROUTING
-A POSTROUTING -m comment --comment "cali:O3lYWMrLQYEMJtB5" -j cali-POSTROUTING
COMMIT
`
const calicoRoutes = "ip route add blackhole 192.168.77.0/26 proto 80"

const cilium = `
*filter
:CILIUM_FORWARD - [0:0]
:CILIUM_INPUT - [0:0]
-A INPUT -m comment --comment "cilium-feeder: CILIUM_INPUT" -j CILIUM_INPUT
-A FORWARD -m comment --comment "cilium-feeder: CILIUM_FORWARD" -j CILIUM_FORWARD
-A CILIUM_FORWARD -o cilium_host -m comment --comment "cilium: any->cluster on cilium_host forward accept" -j ACCEPT
-A CILIUM_FORWARD -i cilium_host -m comment --comment "cilium: cluster->any on cilium_host forward accept" -j ACCEPT
-A CILIUM_FORWARD -i lxc+ -m comment --comment "cilium: cluster->any on lxc+ forward accept" -j ACCEPT
-A CILIUM_INPUT -m mark --mark 0x200/0xf00 -m comment --comment "cilium: ACCEPT for proxy traffic" -j ACCEPT
COMMIT
*nat
:CILIUM_POST_nat - [0:0]
:OLD_CILIUM_POST_nat - [0:0]
-A POSTROUTING -m comment --comment "cilium-feeder: CILIUM_POST_nat" -j CILIUM_POST_nat
-A CILIUM_POST_nat -s 10.0.1.0/24 ! -d 10.0.1.0/24 ! -o cilium_+ -m comment --comment "cilium masquerade non-cluster" -j MASQUERADE
COMMIT
`
const ciliumLinks = `ip link add cilium_host type veth peer name cilium_net
ip address add 10.0.1.1/32 dev cilium_host
ip rule add fwmark 0x200/0xf00 priority 9 table 2004
ip rule add fwmark 0xa00/0xf00 priority 10 table 2005
ip route add local 0.0.0.0/0 dev lo table 2004`

const acceptBridge = (chain: string) => `-A ${chain} -i cni0 -j ACCEPT\n-A ${chain} -o cni0 -j ACCEPT\n`

/** For each program, a node on which the containers' connections work. */
export const ruleSets: Readonly<Record<string, RuleSet>> = {
  docker: { iptables: docker(acceptBridge("DOCKER-USER")), setUp: dockerLinks },
  "ufw, which forwards what its user allows": { iptables: ufw("DROP", acceptBridge("ufw-user-forward")) },
  "ufw, which forwards everything": { iptables: ufw("ACCEPT", "") },
  "kube-proxy by iptables": { iptables: kubeProxyIptables },
  "kube-proxy by ipvs": { iptables: kubeProxyIpvs, setUp: ipvsLink },
  "kube-proxy by nftables": { nft: kubeProxyNft },
  "podman with netavark": { nft: netavark },
  firewalld: { nft: firewalld },
  "what Calico has left": { iptables: calico, setUp: calicoRoutes },
  "what Cilium has left": { iptables: cilium, setUp: ciliumLinks },
}
