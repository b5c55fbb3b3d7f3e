import { describeOwner } from "./owner.ts"
import type { Session } from "./session.ts"

/**
 * Releases what containers of earlier boots hold whose namespaces are gone; says so on stderr. Reads every reservation: it
 * is the last resort before an ADD is refused.
 */
export function reclaimDead(session: Session): void {
  for (const owner of session.rebuild()) {
    const holding = owner.ifName === "" ? undefined : session.ownHolding(owner)
    if (!holding || session.liveness(holding) !== "dead") continue
    session.release(holding)
    session.place.log(
      `released ${holding.addresses.join(", ")} of ${describeOwner(owner)}, which an earlier boot has ended`,
    )
  }
}
