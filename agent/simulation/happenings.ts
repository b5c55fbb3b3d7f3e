import type { Chance } from "../../integration/lab/mod.ts"
import type { Backup } from "./store.ts"
import { type Happening, type Place, POOL, QUARANTINE_S, SWEEP_MS, type World } from "./world.ts"

type Happen = Happening[1]

/** What happens to a cluster: by its name, how often beside the others, and what it does. */
const table: Readonly<Record<string, readonly [weight: number, happen: Happen]>> = {
  "ADD, or the rest of one": [8, (_, { machine }) => (machine.isAdding ? machine.endAdd() : machine.beginAdd(POOL))],
  DEL: [5, deleteContainer],
  GC: [1, (_, { machine }) => machine.collectGarbage()],
  "the agent is killed": [1, (world, place) => world.kill(place)],
  "the agent starts": [2, (world, place) => world.start(place)],
  "the agent is stopped, or goes on": [1, pauseOrResume],
  "the network changes": [2, changeNetwork],
  "the next write fails": [2, failWrite],
  "the file is torn": [1, tearFile],
  "the machine reboots": [1, reboot],
  "the node is deleted, or comes back": [1, toggleMember],
  "the node is cut off and deleted, or all is well again": [2, vanish],
  "the node stands still or is cut off, and is deleted, until its blocks are in quarantine or longer": [1, outlast],
  "members() shows no nodes, or all": [1, hideMembers],
  "time passes": [2, passTime],
  "a backup is made, or restored": [2, restore],
}

/** What is always among them: without containers nothing is at stake. */
const always = /^ADD|^DEL|^the agent starts/

/**
 * What happens in one schedule, each as often as it weighs: a half of all, by chance. Faults that need others to be absent show themselves
 * so, too.
 */
export function chooseHappenings(chance: Chance): readonly Happening[] {
  const chosen = Object.entries(table).filter(([what]) => always.test(what) || chance.below(2) === 0)
  return chosen.flatMap(([what, [weight, happen]]) => Array.from({ length: weight }, () => [what, happen] as const))
}

function deleteContainer({ scheduler }: World, { machine }: Place): void {
  const running = [...machine.containers.keys()]
  if (running.length > 0) machine.delete(scheduler.chance.of(running))
}

function pauseOrResume(_: World, { process }: Place): void {
  if (process) process.isPaused = !process.isPaused
}

function changeNetwork({ scheduler }: World, { network }: Place): void {
  network.lost = scheduler.chance.of(["nothing", "nothing", "requests", "answers", "both"] as const)
}

function failWrite({ scheduler }: World, { machine }: Place): void {
  machine.nextWrite = scheduler.chance.of(["full disk", "error after rename", "killed before", "killed after"] as const)
}

function tearFile({ scheduler }: World, { machine }: Place): void {
  if (scheduler.once(4) && machine.files.has(POOL)) machine.putFile(POOL, "torn")
}

function reboot(world: World, place: Place): void {
  if (!world.scheduler.once(3)) return
  world.kill(place)
  place.machine.reboot()
  world.start(place)
}

/** At least one node stays. */
function toggleMember({ model }: World, { machine: { owner } }: Place): void {
  const others = model.members.filter((each) => each !== owner)
  if (others.length === model.members.length) model.members = [...others, owner]
  else if (others.length > 0) model.members = others
}

function vanish(world: World, place: Place): void {
  const { model } = world
  const { machine, network } = place
  const isMember = model.members.includes(machine.owner)
  if (isMember !== (network.lost === "both")) network.lost = isMember ? "both" : "nothing"
  toggleMember(world, place)
}

/**
 * Its agent goes on where it was: an answer of the store that came just before is still to be taken, or what it asked for is in quarantine by
 * the time it asks again. So one that is cut off has often just claimed a block, and asks for it all the time without an answer.
 */
function outlast(world: World, place: Place): void {
  const { process, machine, network } = place
  const { scheduler, model } = world
  if (!process || process.isPaused || !model.members.includes(machine.owner)) return
  const isCutOff = scheduler.once(2)
  for (const each of world.places) recover(world, each)
  if (isCutOff && scheduler.once(2)) loseClaim(world, place)
  else if (isCutOff) network.lost = "both"
  else process.isPaused = true
  toggleMember(world, place)
  scheduler.settle(4 * SWEEP_MS + (scheduler.once(2) ? 0 : QUARANTINE_S * 1000))
  if (isCutOff) network.lost = "nothing"
  else process.isPaused = false
}

/** A node is well, and its agent runs. */
function recover(world: World, place: Place): void {
  const { process, network, machine } = place
  if (process) process.isPaused = false
  network.lost = "nothing"
  network.showsNoMembers = false
  if (!world.model.members.includes(machine.owner)) toggleMember(world, place)
  world.start(place)
}

/** So long an agent has to notice containers and to make a claim. */
const CLAIM_MS = 1_500

/** Containers come, so that a node claims a block, and the answers of the store are lost. */
function loseClaim({ scheduler }: World, { machine, network }: Place): void {
  scheduler.settle(CLAIM_MS)
  network.lost = "answers"
  machine.fill(POOL, 16)
  scheduler.settle(CLAIM_MS)
}

function hideMembers(_: World, { network }: Place): void {
  network.showsNoMembers = !network.showsNoMembers
}

/** Time in which nothing happens by itself, or in which all that can arrive does. */
function passTime({ scheduler }: World): void {
  if (scheduler.once(2)) scheduler.nowMs += scheduler.chance.of([1_000, SWEEP_MS, QUARANTINE_S * 1000])
  else scheduler.settle(scheduler.chance.of([100, SWEEP_MS, 2 * SWEEP_MS]))
}

const backups = new WeakMap<World, Backup>()

/**
 * A backup comes back at most once, as a store with another id. All agents have known the store before: one that has not cannot
 * tell that it went backwards, and operators add nodes after the others have said again what they own.
 */
function restore(world: World, place: Place): void {
  const { scheduler, model, places, referee } = world
  const backup = backups.get(world)
  if (!backup) backups.set(world, model.backUp())
  if (!backup || world.isRestored || !places.every(({ machine }) => machine.memory?.store)) return
  if (scheduler.once(2)) delayClaim(world, place)
  world.isRestored = true
  referee.isRestored = true
  model.restore(backup, "cluster-2")
}

/** A node's claim is late: the other nodes claim what they can before it comes to the store. */
function delayClaim(world: World, place: Place): void {
  const { scheduler, places } = world
  for (const each of places) recover(world, each)
  place.network.holdsRequests = true
  place.machine.fill(POOL, 16)
  scheduler.settle(CLAIM_MS)
  for (let rounds = 3; rounds > 0; rounds--) {
    for (const other of places) if (other !== place) other.machine.fill(POOL)
    scheduler.settle(CLAIM_MS)
  }
  place.network.holdsRequests = false
}
