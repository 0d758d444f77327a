package recovery

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/controller/index"
	"g8s.host/gpu-scheduler/pkg/eviction"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/nodestate"
)

// taintShutDown is the taint that cloud controllers set on the node of a machine that is shut down (kubernetes/cloud-provider,
// api/well_known_taints.go).
const taintShutDown = "node.cloudprovider.kubernetes.io/shutdown"

// HasGPUs reports whether recovery handles a node. Its capacity shows GPUs even while its agent does not run.
func HasGPUs(node *corev1.Node) bool {
	for name := range node.Status.Capacity {
		if g8s.IsGPU(name) {
			return true
		}
	}
	return slices.ContainsFunc(g8s.GPUTypeLabels, func(label string) bool { return node.Labels[label] != "" })
}

// NodesOf returns the nodes of a pool that have GPUs, sorted by name.
func NodesOf(ctx context.Context, reader client.Reader, pool string) ([]*corev1.Node, error) {
	var list corev1.NodeList
	if err := reader.List(ctx, &list, index.InPool(pool)); err != nil {
		return nil, fmt.Errorf("listing the nodes of pool %s: %w", pool, err)
	}
	var out []*corev1.Node
	for i := range list.Items {
		if node := &list.Items[i]; gpu.PoolOf(node) == pool && HasGPUs(node) {
			out = append(out, node)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// factsOf returns the input of a decision. An error means that the node's record is invalid.
func (r *Reconciler) factsOf(ctx context.Context, node *corev1.Node) (Node, error) {
	record, err := nodestate.ReadRecord(node)
	if err != nil {
		return Node{}, err
	}
	out := Node{
		Name: node.Name, Created: node.CreationTimestamp.Time, Ready: corev1.ConditionUnknown, Record: record,
		Closed:   node.Spec.Unschedulable,
		Suspect:  hasTaint(node, isSuspect),
		ShutDown: hasTaint(node, isShutDown),
	}
	out.readConditions(node.Status.Conditions, r.Settings.Conditions)
	out.OutOfService = hasTaint(node, isOutOfServiceByUs)
	out.OutOfServiceByOthers = !out.OutOfService && hasTaint(node, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
	out.Silence, _ = r.Signs.SilentFor(node.Name)
	if out.Ready == corev1.ConditionTrue {
		return out, nil
	}
	pods, err := r.podsOn(ctx, node.Name)
	if err != nil {
		return Node{}, err
	}
	for _, pod := range pods {
		if IsOurs(pod) {
			out.Pods++
		}
		if eviction.HoldOf(pod, eviction.LostMembers) == eviction.NoMigration {
			out.Unmovable = pod.Namespace + "/" + pod.Name
		}
	}
	if out.Ready == corev1.ConditionUnknown && out.Silence >= missed {
		out.Exclusive, err = r.exclusivePod(ctx, pods)
	}
	return out, err
}

// exclusivePod returns a pod with a volume that only one node at a time may mount, "" if there is none. Kubernetes would detach the volume from an
// out-of-service node that may still write to it.
func (r *Reconciler) exclusivePod(ctx context.Context, pods []*corev1.Pod) (string, error) {
	for _, pod := range pods {
		for i := range pod.Spec.Volumes {
			is, err := r.isExclusive(ctx, pod, &pod.Spec.Volumes[i])
			if err != nil {
				return "", err
			}
			if is {
				return pod.Namespace + "/" + pod.Name, nil
			}
		}
	}
	return "", nil
}

func (r *Reconciler) isExclusive(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume) (bool, error) {
	name := ""
	switch {
	case volume.PersistentVolumeClaim != nil:
		if volume.PersistentVolumeClaim.ReadOnly {
			return false, nil
		}
		name = volume.PersistentVolumeClaim.ClaimName
	case volume.Ephemeral != nil:
		name = pod.Name + "-" + volume.Name
	default:
		return isInlineDisk(volume), nil
	}
	var claim corev1.PersistentVolumeClaim
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name}, &claim)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading claim %s/%s: %w", pod.Namespace, name, err)
	}
	return !slices.ContainsFunc(claim.Spec.AccessModes, func(mode corev1.PersistentVolumeAccessMode) bool {
		return mode == corev1.ReadWriteMany || mode == corev1.ReadOnlyMany
	}), nil
}

// isInlineDisk reports whether a volume is a disk that the pod defines inline and its node attaches.
func isInlineDisk(v *corev1.Volume) bool {
	return v.ISCSI != nil || v.RBD != nil || v.FC != nil || v.AWSElasticBlockStore != nil || v.GCEPersistentDisk != nil || v.AzureDisk != nil ||
		v.Cinder != nil || v.VsphereVolume != nil || v.PortworxVolume != nil || v.ScaleIO != nil || v.StorageOS != nil
}

// readConditions reads whether a node is ready and whether it has a bad condition.
func (n *Node) readConditions(conditions []corev1.NodeCondition, bad []string) {
	for _, condition := range conditions {
		at := condition.LastTransitionTime.Time
		switch {
		case condition.Type == corev1.NodeReady:
			n.Ready, n.Since = condition.Status, at
		case !slices.Contains(bad, string(condition.Type)):
		case condition.Status == corev1.ConditionTrue && at.After(n.BadSince):
			n.Bad, n.BadSince = string(condition.Type), at
		case condition.Status != corev1.ConditionTrue && at.After(n.WellSince):
			n.WellSince = at
		}
	}
}

// podsOn returns the cached pods of a node that have not ended.
func (r *Reconciler) podsOn(ctx context.Context, node string) ([]*corev1.Pod, error) {
	var list corev1.PodList
	if err := r.Client.List(ctx, &list, client.MatchingFields{index.Node: node}); err != nil {
		return nil, fmt.Errorf("listing the pods of node %s: %w", node, err)
	}
	var out []*corev1.Pod
	for i := range list.Items {
		if !gpu.HasEnded(&list.Items[i]) {
			out = append(out, &list.Items[i])
		}
	}
	return out, nil
}

func isShutDown(t corev1.Taint) bool { return t.Key == taintShutDown }

func isSuspect(t corev1.Taint) bool { return t.Key == g8s.TaintSuspect }

func isOutOfServiceByUs(t corev1.Taint) bool {
	return t.Key == corev1.TaintNodeOutOfService && t.Value == g8s.OutOfServiceByController
}

func hasTaint(node *corev1.Node, is func(corev1.Taint) bool) bool {
	return slices.ContainsFunc(node.Spec.Taints, is)
}
