package doctor

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// checkOtherSchedulers looks for pods with GPUs that other schedulers placed on our nodes, and for the result: nodes with more GPUs requested than they have.
func (f *Facts) checkOtherSchedulers() Check {
	const name = "other schedulers"
	for _, part := range []snapshot.Part{snapshot.PartNodes, snapshot.PartAllPods} {
		if check, unread := f.checkUnread(name, part); unread {
			return check
		}
	}
	on := fit.ByNode(f.Pods)
	var over []string
	var foreign []*corev1.Pod
	for i := range f.Nodes {
		node := &f.Nodes[i]
		if gpu.MostPromisedOn(node, on[node.Name]).Excess() > 0 {
			over = append(over, node.Name)
		}
		for _, pod := range on[node.Name] {
			if gpu.PlacedByOther(node, pod) {
				foreign = append(foreign, pod)
			}
		}
	}
	if check, found := f.checkCopies(name, on); found {
		return check
	}
	switch {
	case len(over) > 0:
		first := slices.Min(over)
		at := slices.IndexFunc(f.Nodes, func(n corev1.Node) bool { return n.Name == first })
		promised := gpu.MostPromisedOn(&f.Nodes[at], on[first])
		return Check{Name: name, Status: Failed,
			Text: phrase.Textf("more GPUs were promised to pods than nodes have, so that some pods do not start: %s; %s: %d of %d", examplesText(over), first, promised.Asked, promised.Has).
				Add(schedulersText(foreign)),
			Advice: phrase.Textf("delete the pods that do not start: kubectl get pods -A --field-selector spec.nodeName=%s; and have all pods with GPUs name one scheduler, %s", first, names.SchedulerName)}
	case len(foreign) > 0:
		return Check{Name: name, Status: Warning, Text: phrase.Textf("pods with GPUs that %s did not place, so that one GPU may be given away twice", names.SchedulerName).Add(schedulersText(foreign)),
			Advice: phrase.Textf("have them name schedulerName: %s. Nodes of another scheduler belong in a pool of its name, and policy g8s-access refuses such pods elsewhere (docs/security.md)", names.SchedulerName)}
	}
	return Check{Name: name, Status: OK, Text: phrase.Textf("no other scheduler gives GPUs away, and no node has promised more than it has")}
}

// checkCopies looks for two pods with one card. The scheduler gives it once, and takes its words from copies that users make of a pod; an administrator's
// copy that names its node has them still.
func (f *Facts) checkCopies(name string, on map[string][]*corev1.Pod) (check Check, found bool) {
	for i := range f.Nodes {
		first, second := podsWithOneCard(on[f.Nodes[i].Name])
		if first == nil {
			continue
		}
		return Check{Name: name, Status: Failed,
			Text: phrase.Textf("pods %s/%s and %s/%s of node %s have the same card by their annotation %s, so that one of them does not start",
				first.Namespace, first.Name, second.Namespace, second.Name, f.Nodes[i].Name, names.AnnotationGPUDevices),
			Advice: phrase.Textf("delete the one that is a copy, and make copies without the annotation and spec.nodeName: kubectl debug POD --copy-to=NAME --profile=general"),
		}, true
	}
	return Check{}, false
}

// podsWithOneCard returns two of a node's pods that have one card, and not parts of it. nil if there are none.
func podsWithOneCard(pods []*corev1.Pod) (first, second *corev1.Pod) {
	holders := map[string]*corev1.Pod{}
	for _, pod := range pods {
		for _, device := range gpu.DevicesOf(pod) {
			if device.MemoryMiB > 0 || gpu.HasEnded(pod) {
				continue
			}
			if before := holders[device.UUID]; before != nil && before != pod {
				return before, pod
			}
			holders[device.UUID] = pod
		}
	}
	return nil, nil
}

// schedulersText lists pods with their scheduler, empty if there are none.
func schedulersText(pods []*corev1.Pod) phrase.Text {
	if len(pods) == 0 {
		return nil
	}
	var all, by []string
	for _, pod := range pods {
		all, by = append(all, pod.Namespace+"/"+pod.Name), append(by, pod.Spec.SchedulerName)
	}
	slices.Sort(by)
	return phrase.Textf(" (by %s: %s)", examplesText(slices.Compact(by)), examplesText(all))
}

// checkUnheardSchedulers looks for pods with GPUs that wait for a scheduler which does not look at them: it is not installed, or it is down. Our own has a
// check of its own.
func (f *Facts) checkUnheardSchedulers() Check {
	const name = "schedulers of waiting pods"
	if check, unread := f.checkUnread(name, snapshot.PartAllPods); unread {
		return check
	}
	var unheard []*corev1.Pod
	attention := reason.AttentionTo(f.Pods)
	for i := range f.Pods {
		if pod := &f.Pods[i]; asksGPUs(pod) && attention.IsIgnored(pod, f.Now) {
			unheard = append(unheard, pod)
		}
	}
	if len(unheard) == 0 {
		return Check{Name: name, Status: OK, Text: phrase.Textf("each pod with GPUs names a scheduler that looks at it")}
	}
	return Check{Name: name, Status: Warning,
		Text:   phrase.Textf("pods with GPUs wait for a scheduler that has not looked at them for a minute").Add(schedulersText(unheard)),
		Advice: phrase.Textf("have them name schedulerName: %s, or start the scheduler that they name", names.SchedulerName)}
}

// asksGPUs reports whether a pod has a request for GPUs that can be read.
func asksGPUs(pod *corev1.Pod) bool {
	request, err := gpu.RequestOf(pod)
	return err == nil && !request.IsZero()
}
