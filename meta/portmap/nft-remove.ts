import type { NetlinkSocket } from "../../pkg/netlink/mod.ts"
import {
  atomically,
  type Element,
  getElement,
  type NamedSet,
  type Operation,
  remove,
  sampleElements,
} from "../../pkg/nftables/mod.ts"
import { isOwnerOf, type Owner, ownerComment } from "../../pkg/types/mod.ts"
import { families, type Mapping } from "./mapping.ts"
import { type Found, type Group, keyOf, readMapping } from "./nft-elements.ts"
import { type Layout, layoutOf } from "./nft-layout.ts"
import { removalOf } from "./nft-plan.ts"
import { ownedSets, readState } from "./nft-state.ts"
import { decodeNote } from "./note.ts"
import { parts }
