// The shapes of the API's answers that the page reads. docs/openapi-3.0.json describes all of them.

export interface List<T> { total: number; items: T[]; continue?: string }

export interface Job {
  jobId: string; name: string; namespace: string; kind: string; status: string; reason?: string; message?: string;
  ready: string; node: string; nodes?: string[]; gpus: number; gpuTypes?: string[]; pool?: string; priority?: string; user?: string;
  age: string; createdAt: string; startedAt?: string; endedAt?: string; restarts: number;
}

export interface Device { uuid: string; index: number; memoryMiB?: number }
export interface Pod {
  name: string; rank?: number; node?: string; phase: string; ready: boolean; restarts: number; exitCode?: number; devices?: string;
  created: string; started?: string; reason?: string; message?: string;
}
export interface JobDetail {
  name: string; namespace: string; kind: string; status: string; reason?: string; message?: string; created: string; started?: string;
  completed?: string; priority?: string; pool?: string; user?: string; description?: string; ready: number; desired: number;
  resources: { cpu?: string; memory?: string; gpu: number; gpuTypes?: string[] };
  resourceType: string; object: string; pods: Pod[]; nodes?: string[];
  container: { image: string; command?: string[]; args?: string[] };
}
export interface JobEvent { type: string; reason: string; object: string; message: string; count: number; lastSeen: string }

export interface Holder { namespace: string; job?: string; pod?: string; gpus: number; priority?: string; ending?: boolean }
export interface Step { action: string; text: string; command?: string; holders?: Holder[]; denied?: string; then?: boolean }
export interface Finding { cause: string; text: string; nodes?: number; examples?: string[]; steps?: Step[]; advice?: string[] }
export interface Placement { pod: string; node: string; pool?: string; gpuType?: string; devices?: Device[]; connection?: string }
export interface Report {
  job: string; namespace: string; kind: string; status: string; cause: string; findings?: Finding[];
  nearMisses?: { node: string; free?: number; holders?: Holder[] }[]; placements?: Placement[]; verdict?: string; unread?: string[];
}

export interface NodeState { code: string; text: string; since?: string; until?: string }
export interface Node {
  nodeName: string; status: string; gpuTotal: number; gpuUsed: number; gpuFree: number; gpuUnhealthy?: number; gpuType: string;
  gpuMemory?: string; boundPools: string[]; cpu: string; memory: string; pods: number; createdAt: string; states?: NodeState[];
}
export interface NodeDetail {
  nodeName: string; status: string; gpuType: string; gpuMemory?: string; interconnect?: string; rack?: string; pods: number; createdAt: string;
  boundPools: string[]; states?: NodeState[]; labels: { key: string; value: string }[];
  conditions: { type: string; status: string; reason?: string; message?: string; since: string }[];
  resources: { cpuTotal: string; cpuUsed: string; memoryTotal: string; memoryUsed: string; gpuTotal: number; gpuUsed: number; gpuFree: number };
}
export interface Pool {
  name: string; description: string; gpuTotal: number; gpuUsed: number; gpuFree: number; gpuUnhealthy?: number; gpuType: string[];
  status: string; nodeCount: number; readyNodes: number;
}
export interface QueueEntry {
  position: number; namespace: string; name: string; kind?: string; pool: string; priority: number; priorityClass?: string; pods: number;
  gpus: number; gpuTypes?: string[]; since: string; jobsAhead: number; gpusAhead: number; message?: string; cause?: string;
  eta?: string; earliest?: string; latest?: string; confidence?: number; never?: boolean; reclaims?: boolean;
}
export interface GPUQuota {
  name: string; pool: string; gpuType?: string; namespaces: string[]; min: number; max?: number; used?: number; borrowed?: number;
  free?: number; lent?: number; waiting?: { jobs: number; gpus: number };
}
export interface Quota { name: string; namespace: string; hard: Record<string, string>; used: Record<string, string> }
export interface Usage { from: string; to: string; items: { keys: Record<string, string>; gpuHours: number; pods: number; running: number }[] }
export interface FinishedJob {
  uid: string; namespace: string; jobId: string; kind: string; status: string; reason?: string; user?: string; pool?: string;
  gpus: number; created: string; finished: string;
}

export interface GPUMap {
  taken: string; nodes: string[]; pools: string[]; pool: number[]; types: string[]; type: number[]; racks: string[]; rack: number[];
  statuses: string[]; status: number[]; free: number[];
  gpus: string[]; numbers?: { node: number; numbers: number[] }[]; counts?: { node: number; total: number; used: number; room: number }[];
  faults?: { node: number; gpu: number; health: string }[];
  namespaces: string[]; holderNamespace: number[]; holderJob: string[]; held: number[][]; fits: PoolFits[];
}
export interface PoolFits { pool: string; free: number; pods: number[] }

export interface Detail { message: string; location?: string; line?: number; column?: number; severity?: string; source?: string }
export interface Validation {
  valid: boolean; diagnostics: Detail[]; documents: { kind: string; name: string; namespace?: string; line: number }[];
}
export interface Simulation { jobs: (Report & { starts: boolean })[]; evicted?: string[]; policy: string; unasked?: string[] }
