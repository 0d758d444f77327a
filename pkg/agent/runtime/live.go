package runtime

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// strandedFor is how long a container that was created and never started counts after its sandbox has stopped. No container starts in such a sandbox,
// except one that was just about to.
const strandedFor = 10 * time.Second

// stranded are containers that were created and never started, and whose sandbox is not ready, by the time when they were first seen so. A runtime
// that is killed between the two calls leaves them behind. They stay until kubelet's garbage collection, minutes later.
type stranded map[string]time.Time

// trackStranded records when a container was first seen, and reports whether it no longer counts.
func (s stranded) trackStranded(id string, before stranded, now time.Time) bool {
	since, known := before[id]
	if !known {
		since = now
	}
	s[id] = since
	return now.Sub(since) >= strandedFor
}

// livePods returns the pods that have not ended. before is what it returned last, for the next time.
func livePods(sandboxes []*cri.PodSandbox, containers []*cri.Container, before stranded, now time.Time) (map[types.UID]map[string]bool, stranded) {
	live, next := map[types.UID]map[string]bool{}, stranded{}
	pod := func(uid types.UID) map[string]bool {
		if live[uid] == nil {
			live[uid] = map[string]bool{}
		}
		return live[uid]
	}
	ready := map[string]bool{}
	for _, sandbox := range sandboxes {
		if sandbox.State == cri.PodSandboxState_SANDBOX_READY && sandbox.Metadata != nil {
			ready[sandbox.Id] = true
			pod(types.UID(sandbox.Metadata.Uid))
		}
	}
	for _, container := range containers {
		uid, name := types.UID(container.Labels[labelPod]), container.Labels[labelContainer]
		if uid == "" || container.State == cri.ContainerState_CONTAINER_EXITED {
			continue
		}
		if container.State == cri.ContainerState_CONTAINER_CREATED && !ready[container.PodSandboxId] && next.trackStranded(container.Id, before, now) {
			continue
		}
		// One that was never started can stand beside one of its name that runs.
		pod(uid)[name] = pod(uid)[name] || container.State == cri.ContainerState_CONTAINER_RUNNING
	}
	return live, next
}
