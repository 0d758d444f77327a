package diagnosis

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/condition"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/nodestate"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// lostNodes reports pods on nodes that are not ready or do not exist. Kubernetes shows such pods as running for minutes, whether or not they still
// run.
func lostNodes(f *Facts) []Finding {
	if !f.Cluster.HasPart(snapshot.PartNodes) || f.Simulated {
		return nil
	}
	var out []Finding
	var told []string
	for i := range f.Pods {
		pod := &f.Pods[i]
		name := pod.Spec.NodeName
		if name == "" || gpu.HasEnded(pod) || slices.Contains(told, name) {
			continue
		}
		told = append(told, name)
		at := slices.IndexFunc(f.Cluster.Nodes, func(node corev1.Node) bool { return node.Name == name })
		if at < 0 {
			out = append(out, explainNoSuchNode(f, pod))
			continue
		}
		if ready := readyCondition(&f.Cluster.Nodes[at]); ready.Status != corev1.ConditionTrue {
			out = append(out, explainNotReadyNode(f, pod, ready))
		}
	}
	return out
}

// explainNoSuchNode reports a pod on a node that does not exist: the node was deleted, or the pod was created for it.
func explainNoSuchNode(f *Facts, pod *corev1.Pod) Finding {
	name := pod.Spec.NodeName
	if template := templatePod(f); template != nil && template.Spec.NodeName == name {
		return Finding{
			Cause: reason.NodeLost, Message: phrase.Textf("the job names its node itself, with nodeName: %s, and there is no such node", name),
			Steps: []Step{{Action: reason.Resubmit, Field: "spec.nodeName", Command: gpuctlCommand("delete", &f.Job),
				Message: phrase.Textf("delete the job, leave nodeName out so that the scheduler chooses, and submit it again")}},
		}
	}
	return Finding{
		Cause: reason.NodeLost, Message: phrase.Textf("node %s, on which pod %s was, has been deleted", name, pod.Name), Nodes: 1, Examples: []string{name},
		Steps: []Step{waitStep("wait: within a minute or two Kubernetes removes the pod, and makes another one")},
	}
}

func explainNotReadyNode(f *Facts, pod *corev1.Pod, ready corev1.NodeCondition) Finding {
	name := pod.Spec.NodeName
	if slices.ContainsFunc(f.Cluster.Nodes, func(node corev1.Node) bool { return node.Name == name && nodestate.IsJoining(&node) }) {
		return Finding{
			Cause: reason.NotReady, Message: phrase.Textf("machine %s, on which pod %s is, is starting", name, pod.Name), Nodes: 1, Examples: []string{name},
			Steps: []Step{waitStep("wait: the pod begins when the machine has started")},
		}
	}
	says := phrase.Textf("node %s, on which pod %s is, has not been ready", pod.Spec.NodeName, pod.Name)
	if at := ready.LastTransitionTime; !at.IsZero() {
		says = says.Addf(" for %s", durationText(f.Cluster.Now.Sub(at.Time)))
	}
	at := slices.IndexFunc(f.Cluster.Nodes, func(node corev1.Node) bool { return node.Name == pod.Spec.NodeName })
	states := nodestate.StatesOf(&f.Cluster.Nodes[at], nil)
	says = says.Addf(": whether the pod still runs is not known").Add(notReadyRemedy(phrase.Textf("the node"), states))
	out := Finding{Cause: reason.NodeLost, Message: says, Nodes: 1, Examples: []string{pod.Spec.NodeName}, States: states}
	mend := Step{Action: reason.MendNode, Kind: "Node", Name: pod.Spec.NodeName, Command: "kubectl describe node " + pod.Spec.NodeName}
	switch until, evicts := evictionDelay(pod, f); {
	case pod.DeletionTimestamp != nil:
		mend.Message = phrase.Textf("tell the administrators: the pod leaves once the node answers again, or is deleted: kubectl delete node %s", pod.Spec.NodeName)
	case evicts:
		mend.Message = phrase.Textf("tell the administrators: %s. If it stays away, Kubernetes tells the pod to leave in %s, "+
			"and it is replaced once the node is back, or deleted", mend.Command, durationText(until))
	default:
		mend.Message = phrase.Textf("tell the administrators: %s", mend.Command)
	}
	out.Steps = []Step{mend}
	return out
}

// evictionDelay is the time until a pod is evicted from its lost node; false if it never is.
func evictionDelay(pod *corev1.Pod, f *Facts) (time.Duration, bool) {
	at := slices.IndexFunc(f.Cluster.Nodes, func(node corev1.Node) bool { return node.Name == pod.Spec.NodeName })
	for _, taint := range f.Cluster.Nodes[at].Spec.Taints {
		lost := taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable
		if !lost || taint.Effect != corev1.TaintEffectNoExecute || taint.TimeAdded == nil {
			continue
		}
		for _, toleration := range pod.Spec.Tolerations {
			if toleration.Key == taint.Key && toleration.TolerationSeconds != nil {
				return max(0, taint.TimeAdded.Add(time.Duration(*toleration.TolerationSeconds)*time.Second).Sub(f.Cluster.Now)), true
			}
		}
	}
	return 0, false
}

func readyCondition(node *corev1.Node) corev1.NodeCondition {
	return ptr.Deref(condition.OfNode(node, corev1.NodeReady), corev1.NodeCondition{})
}

// templatePod returns a pod as the job's controller creates it, nil if the job's object may not be read or is gone.
func templatePod(f *Facts) *corev1.Pod {
	template := f.Job.Template
	if template == nil {
		return nil
	}
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = f.Job.Namespace, f.Job.Name
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[names.LabelJob] = f.Job.Name
	for _, class := range f.priorityClasses() { // as admission would
		if class.Name == pod.Spec.PriorityClassName {
			pod.Spec.Priority, pod.Spec.PreemptionPolicy = &class.Value, class.PreemptionPolicy
		}
	}
	return pod
}
