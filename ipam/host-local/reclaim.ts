import { describeOwner } from "./owner.ts"
import type { Session } from "./session.ts"
import { isReclaimable } from "./survey.ts"

/**
 * Releases what containers of earlier boots hold whose namespaces are gone; says so on stderr. Reads every reservation: it
 * is the last resort before an ADD is refused. `surveyStore` tells beforehand what it would release.
 */
export function reclaimDead(session: Session): void {
  for (const owner of session.owners()) {
    const holding = session.ownHolding(owner)
    if (!holding || !isReclaimable(session.place, holding)) continue
    session.release(holding)
    session.place.log(
      `released ${holding.addresses.join(", ")} of ${describeOwner(owner)}, which an earlier boot has ended`,
    )
  }
}
