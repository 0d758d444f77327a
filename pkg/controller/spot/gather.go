package spot

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/condition"
	"g8s.host/gpu-scheduler/pkg/controller/gangs"
	"g8s.host/gpu-scheduler/pkg/controller/index"
	"g8s.host/gpu-scheduler/pkg/controller/pools"
	"g8s.host/gpu-scheduler/pkg/eviction"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// leaseMaxAge is the maximum age of the lease of a live kubelet.
const leaseMaxAge = 15 * time.Second

// view is what was read about one SpotPool: the facts and the objects behind them.
type view struct {
	facts Facts
	cloud Cloud
	nodes map[string]*corev1.Node
	// pods are the pods that must be moved from each node before it goes.
	pods  map[string][]*corev1.Pod
	gangs *gangs.Reader
}

// gatherFacts reads the input of a decision about a SpotPool.
func (r *Reconciler) gatherFacts(ctx context.Context, pool *g8s.SpotPool) (*view, error) {
	v := &view{facts: Facts{Pool: pool, Now: r.Clock.Now()}, nodes: map[string]*corev1.Node{}, pods: map[string][]*corev1.Pod{}}
	v.gangs = &gangs.Reader{Cache: r.Client, Live: r.Live}
	if err := r.askCloud(ctx, v); err != nil {
		return nil, err
	}
	if err := r.gatherNodes(ctx, v); err != nil {
		return nil, err
	}
	var err error
	v.facts.Demand, err = r.readDemand(ctx, pool, v.facts.Now)
	return v, err
}

// askCloud lists the machines, unless that failed recently with the current spec and Secrets.
func (r *Reconciler) askCloud(ctx context.Context, v *view) error {
	pool := v.facts.Pool
	secrets := r.readSecrets(ctx, pool)
	v.facts.Secrets = secrets.versions
	condition := meta.FindStatusCondition(pool.Status.Conditions, g8s.ConditionCloudAnswers)
	after := pool.Status.RetryAfter
	if condition != nil && condition.Reason == reasonListFailed && after != nil && after.After(v.facts.Now) && !isChanged(pool, secrets.versions) {
		v.facts.Waiting = true
		return nil
	}
	account, err := r.buildAccount(ctx, pool, secrets)
	v.facts.Unbuyable = secrets.userData.err
	if err == nil {
		connect := r.Clouds[pool.Spec.Provider.Name]
		if connect == nil {
			err = &Error{Kind: Denied, Text: "this gpu-controller has no provider " + pool.Spec.Provider.Name}
		} else {
			v.cloud, err = connect(account)
		}
	}
	if err != nil {
		v.facts.Failure = err
		return nil //nolint:nilerr // the status reports it, and it is retried when a Secret may exist
	}
	var known []string
	for _, machine := range pool.Status.Machines {
		if machine.Instance != "" {
			known = append(known, machine.Instance)
		}
	}
	calling, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	v.facts.Instances, v.facts.Failure = v.cloud.List(calling, known)
	v.facts.Answered = v.facts.Failure == nil
	return ctx.Err()
}

// buildAccount returns the input for connecting to the cloud. An [Error] describes what is wrong with a Secret, never its content.
func (r *Reconciler) buildAccount(ctx context.Context, pool *g8s.SpotPool, secrets *secrets) (Account, error) {
	cluster, err := r.clusterUID(ctx)
	if err != nil {
		return Account{}, err
	}
	out := Account{
		Owner: Owner{Cluster: cluster, Pool: pool.Name}, Provider: pool.Spec.Provider, Template: pool.Spec.Template,
		Labels: labelsOf(pool),
	}
	if secrets.credentials.err != nil {
		return Account{}, secrets.credentials.err
	}
	if data := secrets.credentials.data; data != nil {
		out.Credentials = map[string]Secret{}
		for key, value := range data {
			out.Credentials[key] = NewSecret(string(value))
		}
	}
	if ref := pool.Spec.Template.UserData; ref != nil {
		out.UserData = NewSecret(string(secrets.userData.data[ref.Key]))
	}
	return out, nil
}

// clusterUID distinguishes this cluster from others that share an account.
func (r *Reconciler) clusterUID(ctx context.Context) (string, error) {
	var namespace corev1.Namespace
	if err := r.Live.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &namespace); err != nil {
		return "", &Error{Kind: Lost, Text: "the namespace kube-system, by whose UID machines are tagged, cannot be read now"}
	}
	return string(namespace.UID), nil
}

// labelsOf returns the labels of a SpotPool's nodes.
func labelsOf(pool *g8s.SpotPool) map[string]string {
	out := map[string]string{g8s.LabelPool: pool.Spec.Pool, g8s.LabelSpotPool: pool.Name}
	if pool.Spec.GPUType != "" {
		out[g8s.LabelGPUType] = pool.Spec.GPUType
	}
	return out
}

// gatherNodes reads the nodes that may belong to machines, and their pods.
func (r *Reconciler) gatherNodes(ctx context.Context, v *view) error {
	var list corev1.NodeList
	if err := r.Client.List(ctx, &list); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	pool := v.facts.Pool
	names, instances, addresses := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, machine := range pool.Status.Machines {
		names[machine.Name], instances[machine.Instance] = true, true
	}
	for _, instance := range v.facts.Instances {
		instances[instance.ID], names[instance.Machine], addresses[instance.PrivateIP] = true, true, true
	}
	for i := range list.Items {
		node := &list.Items[i]
		instance := instanceOf(node)
		origin := originOf(node)
		atAddress := slices.ContainsFunc(origin.Addresses, func(address string) bool { return addresses[address] })
		if !names[node.Name] && (instance == "" || !instances[instance]) && !atAddress {
			continue
		}
		facts, err := r.nodeFacts(ctx, v, node)
		if err != nil {
			return err
		}
		v.nodes[node.Name] = node
		v.facts.Nodes = append(v.facts.Nodes, facts)
	}
	return nil
}

// instanceOf returns the instance in a node's provider ID, such as ins-1 of qcloud:///800002/ins-1.
func instanceOf(node *corev1.Node) string {
	return node.Spec.ProviderID[strings.LastIndex(node.Spec.ProviderID, "/")+1:]
}

func (r *Reconciler) nodeFacts(ctx context.Context, v *view, node *corev1.Node) (Node, error) {
	out := Node{Name: node.Name, Instance: instanceOf(node), Origin: originOf(node), Ready: condition.IsNodeTrue(node, corev1.NodeReady)}
	out.Alive = out.Ready
	if out.Ready && v.facts.Answered && !v.listsMachine(out) {
		var err error
		if out.Alive, err = r.isAlive(ctx, v, node.Name); err != nil {
			return Node{}, err
		}
	}
	if at, err := time.Parse(time.RFC3339, node.Annotations[g8s.AnnotationInterruption]); err == nil {
		out.Interruption = at
	}
	pods, err := podsOn(ctx, r.Client, client.MatchingFields{index.Node: node.Name})
	if err != nil {
		return Node{}, err
	}
	for _, pod := range pods {
		out.countPod(pod)
		asks, err := podsToCheckpoint(ctx, v.gangs, pod)
		if err != nil {
			return Node{}, err
		}
		out.WantsCheckpoint = out.WantsCheckpoint || len(asks) > 0
	}
	v.pods[node.Name] = pods
	return out, nil
}

// countPod adds a pod of the node.
func (n *Node) countPod(pod *corev1.Pod) {
	n.Pods++
	n.Kept = n.Kept || eviction.HoldOf(pod, eviction.SpotMachine) != ""
	request, err := gpu.RequestOf(pod)
	if err == nil && request.IsZero() && !g8s.IsOurScheduler(pod.Spec.SchedulerName) {
		return
	}
	n.Jobs++
	if err == nil {
		n.GPUs += request.Whole
	}
}

// listsMachine reports whether the cloud lists the machine of a node.
func (v *view) listsMachine(node Node) bool {
	return slices.ContainsFunc(v.facts.Instances, func(instance Instance) bool {
		return instance.ID == node.Instance || instance.Machine == node.Name
	})
}

// isAlive reports whether the kubelet of a node has recently renewed its lease, which it does every 10 s.
func (r *Reconciler) isAlive(ctx context.Context, v *view, node string) (bool, error) {
	var lease coordinationv1.Lease
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: node}, &lease)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the lease of node %s: %w", node, err)
	}
	return lease.Spec.RenewTime != nil && v.facts.Now.Sub(lease.Spec.RenewTime.Time) < leaseMaxAge, nil
}

// podsOn returns the pods that must be moved before a node goes.
func podsOn(ctx context.Context, reader client.Reader, where client.MatchingFields) ([]*corev1.Pod, error) {
	var list corev1.PodList
	if err := reader.List(ctx, &list, where); err != nil {
		return nil, fmt.Errorf("listing the pods of a node: %w", err)
	}
	var out []*corev1.Pod
	for i := range list.Items {
		if pod := &list.Items[i]; !gpu.HasEnded(pod) && !gpu.BelongsToNode(pod) {
			out = append(out, pod)
		}
	}
	return out, nil
}

// readDemand reads the demand for GPUs of the pool.
func (r *Reconciler) readDemand(ctx context.Context, pool *g8s.SpotPool, now time.Time) (Demand, error) {
	facts, err := pools.GatherFacts(ctx, r.Client, pool.Spec.Pool)
	if err != nil {
		return Demand{}, err
	}
	waiting := waitingTooLong(facts.Waiting, time.Duration(secondsOr(pool.Spec.WaitSeconds, 30))*time.Second, now)
	out := Demand{Machines: machinesToFill(waiting, &pool.Spec)}
	if len(waiting) == 0 {
		return out, nil
	}
	var group g8s.GPUPool
	err = r.Client.Get(ctx, client.ObjectKey{Name: pool.Spec.Pool}, &group)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return out, nil
	}
	if err != nil {
		return Demand{}, fmt.Errorf("reading GPUPool %s: %w", pool.Spec.Pool, err)
	}
	out.Advice, out.AsOf = adviceOf(&group)
	return out, nil
}
