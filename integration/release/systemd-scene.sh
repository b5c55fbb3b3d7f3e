# Runs the commands that an operator uses with the units. systemd executes this script. Prints a line for each check that succeeds.
export CNI_PATH=/opt/dist/bin
cni=/opt/dist/cni
until_() {
  attempt=0
  until eval "$1" >/dev/null 2>&1; do
    attempt=$((attempt + 1))
    [ $attempt -lt 600 ] || { echo "in vain: $1"; return 1; }
    sleep 0.1
  done
  echo "ok: $2"
}
property() { systemctl show "$1" -p "$2" --value; }
has_looked='grep -q start /run/cni/reconcile.json'
has_rules='nft list map ip cni_hostports ports | grep -q 8080 && nft list table ip cni_masquerade'

ip link set lo up
ip netns add stays
ip netns add goes
CAP_ARGS='{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]}' $cni add pods stays >/dev/null
$cni add pods goes >/dev/null

systemctl start cni-reconcile.service
until_ "$has_looked" "the listener has looked"
nft flush ruleset
until_ "$has_rules" "rules come back after a flush"
ip link delete cni0
until_ "bridge link | grep -q 'master cni0' && ip address show cni0 | grep -q 10.85.0.1/24" "the bridge comes back"
pid=$(property cni-reconcile MainPID)
grep -Eq '^NoNewPrivs:.1$' /proc/"$pid"/status && grep -Eq '^Seccomp:.2$' /proc/"$pid"/status && echo "ok: it is confined"
rm -f /run/cni/reconcile.json
kill -9 "$pid"
nft flush ruleset
until_ "$has_looked && $has_rules" "it is started again, and looks"
systemctl stop cni-reconcile.service
[ "$(property cni-reconcile ActiveState) $(property cni-reconcile Result)" = "inactive success" ] && echo "ok: it stops"
[ -e /run/cni/deletions ] && echo "ok: its directory stays"

ip netns delete goes
systemctl start cni-gc.timer
until_ '[ $(ls /var/lib/cni/results | wc -l) = 1 ] && ! ls /var/lib/cni/networks/pods/10.85.0.3' "the timer deletes what the gone container left"
until_ '[ "$(property cni-gc.service ActiveState)" = inactive ]' "gc has ended"
[ "$(property cni-gc.service Result)" = success ] && echo "ok: gc did all"
nft list map ip cni_hostports ports | grep -q 8080 && echo "ok: the other one keeps its port"

mkdir -p /var/lib/prometheus/node-exporter
systemctl start cni-metrics.service
[ "$(property cni-metrics.service Result)" = success ] && grep -q '^cni_attachments' /var/lib/prometheus/node-exporter/cni.prom &&
  echo "ok: the metrics are written"
echo end
