// Package gpudevices chooses which cards and MIG slices of a node a pod gets, and binds the pod together with that choice. It runs
// at Reserve, where it chooses, and at Bind, in place of Kubernetes' DefaultBinder, where the choice is written on the
// Binding as annotation g8s.host/gpu-devices: the API server stores node and cards in one transaction. It binds every
// pod of its profile, also those without GPUs. It has no arguments.
//
// What it writes on a pod of one container that asks for two GPUs:
//
//	g8s.host/gpu-devices: {"version":1,"containers":{"train":[{"uuid":"GPU-5f1e","index":0},{"uuid":"GPU-9c07","index":1}]}}
//	g8s.host/epoch: gpu-scheduler-7d9f_1b2c/4
//	g8s.host/decision: 1042/778216
package gpudevices

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/backpressure"
	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/devices"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// Name is the plugin's name in the scheduler configuration.
const Name = "GPUDevices"

var (
	_ fwk.ReservePlugin     = (*Plugin)(nil)
	_ fwk.BindPlugin        = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
)

// Dependencies are shared by the instances of all profiles.
type Dependencies struct {
	// DeviceCache tracks free GPUs, and stores what is chosen.
	DeviceCache *devices.Cache
	// Epoch is the leadership that bindings are made under, and false if there is none. It may be nil.
	Epoch func() (string, bool)
	// Gate counts the bindings in flight. It may be nil.
	Gate *backpressure.Gate
	// Attempts numbers scheduling attempts, and knows which pod changes they could see. nil uses its own numbers, and sees the pod alone.
	Attempts *cycle.Attempts
}

// Plugin chooses cards and binds pods for one scheduler profile.
type Plugin struct {
	Dependencies
	handle fwk.Handle
}

const stateKey fwk.StateKey = "Reserve" + Name

// decision identifies the decision about a pod: the attempt, and the last pod change before it. Clones share it.
type decision struct {
	attempt int64
	seen    string
}

// Clone implements fwk.StateData.
func (d *decision) Clone() fwk.StateData { return d }

// String is what is written on the Binding.
func (d *decision) String() string { return strconv.FormatInt(d.attempt, 10) + "/" + d.seen }

// Factory returns what builds the plugin for each profile.
func Factory(deps Dependencies) func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	if deps.Attempts == nil {
		deps.Attempts = &cycle.Attempts{}
	}
	return func(ctx context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		if err := deps.DeviceCache.WatchCluster(ctx, handle); err != nil {
			return nil, err
		}
		registerMetrics()
		return &Plugin{Dependencies: deps, handle: handle}, nil
	}
}

// Name returns the plugin's name.
func (*Plugin) Name() string { return Name }

// EventsToRegister returns none: Reserve rejects no pod, so none waits for this plugin.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) { return nil, nil }

// Reserve chooses the pod's GPUs and MIG slices on the node, in memory alone: it also runs in dry runs. GPUFilter has asked the same allocator
// about the same node, so there are GPUs. If there are none, the profile lacks GPUFilter, which is a misconfiguration and no shortage: the pod
// is retried after a backoff, and does not wait for an event.
func (p *Plugin) Reserve(_ context.Context, cs fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	p.Attempts.Seen.AdvanceTo(pod.ResourceVersion)
	cs.Write(stateKey, &decision{attempt: p.Attempts.AttemptNumber(cs), seen: p.Attempts.Seen.Version()})
	demand, err := gpu.DemandOf(pod)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("reading what the pod asks for (is GPUFilter enabled?): %w", err))
	}
	if !demand.NeedsGPUs() && !demand.NeedsSlices() {
		return nil
	}
	node, err := p.handle.SnapshotSharedLister().NodeInfos().Get(nodeName)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("choosing cards on node %s: %w", nodeName, err))
	}
	if expected := p.withNominated(pod, node); expected != nil {
		if reason := p.DeviceCache.Reserve(pod, &demand, expected); reason.IsZero() {
			return nil
		}
	}
	if why := p.DeviceCache.Reserve(pod, &demand, node); !why.IsZero() {
		return fwk.AsStatus(fmt.Errorf("choosing cards on node %s (is GPUFilter enabled?): %s: %s",
			nodeName, reason.ReasonForCode(why.Code).Text, why.Detail()))
	}
	return nil
}

// withNominated returns the node with the pods that are nominated to it ahead of this one, as Filter saw it, or nil if there are none. GPUs
// chosen beside theirs leave room for them. They may have lost their nominations since, which Filter allows for: then the node as it is will do.
func (p *Plugin) withNominated(pod *corev1.Pod, node fwk.NodeInfo) fwk.NodeInfo {
	var expected fwk.NodeInfo
	for _, nominated := range p.handle.NominatedPodsForNode(node.Node().Name) {
		other := nominated.GetPod()
		if other.UID == pod.UID || ptr.Deref(other.Spec.Priority, 0) < ptr.Deref(pod.Spec.Priority, 0) {
			continue
		}
		if expected == nil {
			expected = node.Snapshot()
		}
		expected.AddPodInfo(nominated)
	}
	return expected
}

// Unreserve drops the choice.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	p.DeviceCache.ForgetPod(pod.UID)
}
