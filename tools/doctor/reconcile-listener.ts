import { Bus } from "../../pkg/dbus/mod.ts"
import { findListenerRecord, isListening, type ListenerRecord } from "../reconcile/mod.ts"
import type { Check, Finding } from "./finding.ts"
import { sh } from "./remedy.ts"

/** The timeout for an answer of D-Bus, long enough for a busy machine. */
const PATIENCE_MS = 5000

/** Finds objects that the `cni reconcile` listener could not restore, or a missing listener if firewalld runs. */
export const checkReconcileListener: Check = ({ attachments }) => {
  const record = findListenerRecord()
  if (record) return lossesLeft(record)
  return attachments.length > 0 && !isListening() && hasFirewalld() ? [noListener] : []
}

const noListener: Finding = {
  rule: "no-listener",
  severity: "warning",
  what: "firewalld runs on this host, but the listener of cni reconcile does not",
  why: "a reload or a restart of firewalld deletes rules of containers, and no program restores them",
  remedy: sh`systemctl enable --now cni-reconcile.service`,
  note: "cni reconcile restores the missing rules once",
}

/** Returns findings for objects that the listener's last check could not restore. */
export function lossesLeft({ losses }: Pick<ListenerRecord, "losses">): Finding[] {
  return losses.map(({ what, reason }) => ({
    rule: "losses-left",
    severity: "error",
    cause: reason,
    affected: [{ name: what }],
    what: `${what} could not be restored: ${reason}`,
    ofMany: (count) => `${count} objects could not be restored: ${reason}`,
    why: "the listener of cni reconcile tries again every half minute",
    remedy: "fix the cause; journalctl -u cni-reconcile shows the failures",
  }))
}

function hasFirewalld(): boolean {
  try {
    using bus = Bus.findSystem(PATIENCE_MS)
    return bus?.hasOwner("org.fedoraproject.FirewallD1") === true
  } catch {
    return false
  }
}
