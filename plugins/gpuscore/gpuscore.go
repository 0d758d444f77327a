// Package gpuscore prefers, among the nodes that can take a pod, the one whose GPUs it suits best. The score
// is absolute, 0–100, the weighted mean of three parts: utilization (how the node is filled with the pod on it, by
// the strategy for the pod's type of job), typeMatch (how near the GPU type is to what the pod prefers) and topology
// (NVLink for pods of several GPUs, and not for pods of one). Pods without GPUs are kept off GPU nodes. It runs at
// PreFilter, where it makes a short list and tells GPUReserve which pods are to be expected, PreScore and Score; its arguments are weights, strategy, strategyByJobType, targetBand, keepWholePerMille and
// compatibleTypes, and policyFile, which holds all of these and is watched.
//
// A pod that it handles, which takes an A800 but would rather have an A100:
//
//	metadata: {annotations: {g8s.host/gpu-types: "A100-80G,A800-80G"}}
//	spec: {containers: [{resources: {limits: {nvidia.com/gpu: 4}}}]}
package gpuscore

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	fwk "k8s.io/kube-scheduler/framework"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/backfill"
	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/cycle/shortlist"
	"g8s.host/gpu-scheduler/pkg/fragmentation"
	"g8s.host/gpu-scheduler/pkg/fragmentation/observe"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Name is the plugin's name in the scheduler configuration.
const Name = "GPUScore"

const stateKey fwk.StateKey = "PreScore" + Name

const (
	reasonReplicas = "the score depends on where the job's other replicas are"
	reasonForecast = "the score depends on which pods are expected"
)

var (
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
	_ fwk.PreScorePlugin    = (*Plugin)(nil)
	_ fwk.ScorePlugin       = (*Plugin)(nil)
	_ fwk.SignPlugin        = (*Plugin)(nil)
)

// Dependencies are shared by the instances of all profiles.
type Dependencies struct {
	// Explain leaves the scores in the cycle state, for the plugin that records them.
	Explain bool
	// Devices is nil where GPUs are only counted; then labels say how they are connected.
	Devices observe.Devices
	// Attempts numbers scheduling attempts. nil has numbers of its own.
	Attempts *cycle.Attempts
	// StartReservations are the start reservations of queued jobs. nil makes none.
	StartReservations *backfill.StartReservations
}

// Plugin scores nodes for one scheduler profile.
type Plugin struct {
	Dependencies
	handle fwk.Handle
	policy atomic.Pointer[policy] // replaced when the policy file changes
	// rankings, replicas and domains are used by the scheduling cycle alone.
	rankings   shortlist.Rankings[podClass, nodeState]
	replicas   replicaCount
	domains    domainTables
	forecaster observe.Forecaster
}

// wants is the part of a pod that its score depends on.
type wants struct {
	Request gpu.Request
	Types   gpu.Types
	JobType string
	// Demand is zero where cards are only counted.
	Demand gpu.Demand
}

// state is what PreScore read. Only scores grow, which is safe for concurrent use, so clones share it, and one scheduling cycle has one policy.
type state struct {
	wants     wants
	policy    *policy
	strategy  configv1.Strategy
	job       job
	replicas  *replicas                // nil if the strategy does not need them
	assumed   *replicaStanding         // the assumed standing of all nodes, nil to compute it
	ask       fragmentation.PodRequest // zero, like the forecasts, if the strategy does not need them
	forecasts *fragmentation.Forecasts
	scores    *cycle.Scores // nil without explanations
	// reservedBehind is what jobs behind the pod in the queue have reserved, nil for nothing. The pod may use that, but does not if another node
	// has the same score.
	reservedBehind *backfill.ReservedRoom
}

// Clone implements fwk.StateData.
func (s *state) Clone() fwk.StateData { return s }

// Factory returns what builds the plugin for each profile.
func Factory(deps Dependencies) func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	if deps.Attempts == nil {
		deps.Attempts = &cycle.Attempts{}
	}
	return func(ctx context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		return newPlugin(ctx, obj, &Plugin{Dependencies: deps, handle: handle})
	}
}

// newPlugin completes a plugin for one profile. It rejects invalid arguments with the path and the value.
func newPlugin(ctx context.Context, obj runtime.Object, plugin *Plugin) (fwk.Plugin, error) {
	given, ok := obj.(*configv1.GPUScoreArgs)
	if !ok {
		return nil, fmt.Errorf("arguments of %s are %T, want *GPUScoreArgs", Name, obj)
	}
	args := given.DeepCopy()
	args.SetDefaults()
	path := field.NewPath("pluginConfig").Key(Name).Child("args")
	if errs := args.Validate(path); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	registerMetrics()
	plugin.policy.Store(newPolicy(args, 0))
	if args.PolicyFile != "" {
		plugin.watchPolicy(ctx, args.PolicyFile)
	}
	return plugin, nil
}

// Name returns the plugin's name.
func (*Plugin) Name() string { return Name }

// PreScore reads the pod and the policy once for all nodes, and finds the other replicas of the pod's job. With a short list, PreFilter has done
// so.
func (p *Plugin) PreScore(_ context.Context, cs fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	if shortlist.Open(cs).IsUsed() {
		return nil
	}
	s, err := p.stateOf(cs, pod)
	if err != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	if !shortlist.IsRepeated(cs) {
		countPod(s.wants.Request)
	}
	if s.spreadsReplicas() {
		all, err := p.handle.SnapshotSharedLister().NodeInfos().List()
		if err != nil {
			return fwk.AsStatus(fmt.Errorf("listing the nodes of the snapshot: %w", err))
		}
		s.replicas = p.replicas.replicasOf(s.job, all, cycle.ReadChanges(cs))
		s.replicas.findFewest(nodes)
	}
	if err := p.addForecasts(cs, s, pod); err != nil {
		return fwk.AsStatus(err)
	}
	p.prepareScores(cs, s, len(nodes))
	cs.Write(stateKey, s)
	return nil
}

// addForecasts adds the forecasts, once per attempt, if the strategy needs them. GPUs that are only counted have none.
func (p *Plugin) addForecasts(cs fwk.CycleState, s *state, pod *corev1.Pod) (err error) {
	if s.strategy != configv1.LeastFragmentation || p.Devices == nil || s.forecasts != nil {
		return nil
	}
	s.ask = observe.PodRequestOf(pod)
	now := observe.Occasion{Attempt: p.Attempts.AttemptNumber(cs), Pool: s.ask.Pool, Changes: cycle.ReadChanges(cs)}
	if s.forecasts, err = p.forecaster.NextForecasts(p.handle, p.Devices, now); err != nil {
		return fmt.Errorf("forecasting which pods will come: %w", err)
	}
	cycle.WriteExpectation(cs, &cycle.Expectation{Forecasts: s.forecasts, Asked: s.ask, KeepPerMille: s.policy.keepWhole})
	cs.Write(stateKey, s)
	return nil
}

// CountAhead counts the pods that forecasts are based on, if there may be forecasts. A standby process calls it, to speed up its first attempt
// as a leader.
func (p *Plugin) CountAhead() error {
	if p.Devices == nil || !p.policy.Load().usesForecasts() {
		return nil
	}
	return p.forecaster.CountAhead(p.handle)
}

// prepareScores allocates the scores of a pod that requests GPUs, and stores them for the plugin that records them.
func (p *Plugin) prepareScores(cs fwk.CycleState, s *state, nodes int) {
	if !p.Explain || s.wants.Request.IsZero() {
		return
	}
	s.scores = cycle.NewScores(nodes, s.policy.weights.explainedParts())
	cs.Write(cycle.ScoresKey, s.scores)
}

// stateOf returns what PreScore read. The classic configuration enables the plugin at score alone; then there is no
// such state, and the pod is read again for each node.
func (p *Plugin) stateOf(cs fwk.CycleState, pod *corev1.Pod) (*state, error) {
	if s, err := cycle.Read[*state](cs, stateKey); err == nil {
		return s, nil
	}
	return p.stateFor(pod)
}

// stateFor reads the pod, and the policy in effect.
func (p *Plugin) stateFor(pod *corev1.Pod) (*state, error) {
	wants, err := p.wantsOf(pod)
	if err != nil {
		return nil, err
	}
	policy := p.policy.Load()
	return &state{
		wants: wants, policy: policy, strategy: policy.strategyFor(wants.JobType), job: jobOf(pod), reservedBehind: p.StartReservations.ReservedBehind(pod),
	}, nil
}

// spreadsReplicas reports whether the pod's score depends on the location of the other pods of its job.
func (s *state) spreadsReplicas() bool {
	return s.strategy == configv1.SpreadReplicas && s.job.name != "" && !s.wants.Request.IsZero()
}

// SignPod identifies pods that the plugin treats alike: those with equal wants, under one policy. Replicas that are to be spread are excluded,
// because the next one should not follow the first, and so are pods with GPUs whose score depends on the demand: each changes what the next is
// worth everywhere. A pod without GPUs changes only its node, which kube-scheduler scores again.
func (p *Plugin) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	s, err := p.stateFor(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, err.Error())
	}
	if s.spreadsReplicas() {
		return nil, fwk.NewStatus(fwk.Unschedulable, reasonReplicas)
	}
	if s.strategy == configv1.LeastFragmentation && p.Devices != nil && !s.wants.Request.IsZero() {
		return nil, fwk.NewStatus(fwk.Unschedulable, reasonForecast)
	}
	return []fwk.SignFragment{
		{Key: "v1.Pod." + Name + "Wants()", Value: s.wants},
		{Key: Name + "Policy()", Value: s.policy.generation},
	}, nil
}

func (p *Plugin) wantsOf(pod *corev1.Pod) (wants, error) {
	request, err := gpu.RequestOf(pod)
	if err != nil {
		return wants{}, err
	}
	types, err := gpu.PodTypes(pod)
	if err != nil {
		return wants{}, err
	}
	w := wants{Request: request, Types: types, JobType: pod.Labels[names.LabelJobType]}
	if p.Devices != nil {
		w.Demand, err = gpu.DemandOf(pod)
	}
	return w, err
}
