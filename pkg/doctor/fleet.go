package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// hasGPUs reports whether a node offers GPUs, or its labels promise some.
func hasGPUs(node *corev1.Node) bool { return offersGPUs(node) || promisesGPUs(node) }

// ready looks for nodes with GPUs that are down or cut off.
func (f *Facts) ready() Check {
	const name = "nodes"
	if check, unread := f.unread(name, snapshot.PartNodes); unread {
		return check
	}
	var lost []string
	all := 0
	for i := range f.Nodes {
		node := &f.Nodes[i]
		if !hasGPUs(node) {
			continue
		}
		all++
		if !fit.IsReady(node) {
			lost = append(lost, node.Name)
		}
	}
	if len(lost) == 0 {
		return Check{Name: name, Status: OK, Text: fmt.Sprintf("all %d nodes with GPUs are ready", all)}
	}
	check := Check{
		Name: name, Status: Warning, Text: fmt.Sprintf("%d of %d nodes with GPUs are not ready: %s", len(lost), all, some(lost)),
		Advice: "no job starts there: kubectl describe node " + slices.Min(lost) + " says since when and why",
	}
	if len(lost) == all {
		check.Status = Failed
	}
	return check
}

// pools looks for pools of which every node is closed to new pods, or to those that tolerate nothing.
func (f *Facts) pools() Check {
	const name = "pools"
	if check, unread := f.unread(name, snapshot.PartNodes); unread {
		return check
	}
	members := map[string][]*corev1.Node{}
	for i := range f.Nodes {
		if hasGPUs(&f.Nodes[i]) {
			pool := gpu.PoolOf(&f.Nodes[i])
			members[pool] = append(members[pool], &f.Nodes[i])
		}
	}
	var closed []string
	var advice string
	for _, pool := range slices.Sorted(maps.Keys(members)) {
		if why, open := closedBy(members[pool]); why != "" {
			closed = append(closed, fmt.Sprintf("pool %s: %s", pool, why))
			advice = cmp.Or(advice, open)
		}
	}
	if len(closed) == 0 {
		return Check{Name: name, Status: OK, Text: "each has a node that takes jobs"}
	}
	return Check{Name: name, Status: Warning, Text: "no job starts in " + strings.Join(closed, "; "), Advice: advice}
}

// closedBy says why none of a pool's nodes takes a pod that tolerates nothing, and what opens one; "" if one takes it.
func closedBy(nodes []*corev1.Node) (why, open string) {
	reasons := map[string]int{}
	first := map[string]string{}
	for _, node := range nodes {
		reason, command := shut(node)
		if reason == "" {
			return "", ""
		}
		reasons[reason]++
		first[reason] = cmp.Or(first[reason], command)
	}
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		parts = append(parts, fmt.Sprintf("%d of %d nodes %s", reasons[reason], len(nodes), reason))
		open = cmp.Or(open, first[reason])
	}
	return strings.Join(parts, ", "), open
}

// shut says why a node takes no pod that tolerates nothing, and what to do; "" if it takes one.
func shut(node *corev1.Node) (reason, advice string) {
	obstacle, _ := fit.ClosedTo(node, nil)
	switch obstacle.Kind {
	case fit.Cordoned:
		return "cordoned", "when the work on it is done: kubectl uncordon " + node.Name
	case fit.NotReady:
		return "not ready", "kubectl describe node " + node.Name + " says why"
	case fit.KeptOff:
		return "kept off by gpu-controller (" + obstacle.What + ")", "gpuctl describe node " + node.Name + " says why"
	case fit.Tainted:
		advice = "jobs that may run there tolerate the taint in resources.tolerations"
		if strings.HasPrefix(obstacle.What, names.TaintMoving) {
			advice = "if no gpuctl advise defrag --apply is at work there, open it: kubectl taint node " + node.Name + " " + names.TaintMoving + "-"
		}
		return "with the taint " + obstacle.What, advice
	}
	return "", ""
}

// health looks for GPUs that the agents found to be broken: the scheduler gives them to nobody.
func (f *Facts) health() Check {
	const name = "GPU health"
	if check, unread := f.unread(name, snapshot.PartNodes); unread {
		return check
	}
	var sick []string
	count := 0
	for i := range f.Nodes {
		inventory, _ := gpu.InventoryOf(&f.Nodes[i]) // what cannot be read has a check of its own
		var cards []string
		for _, card := range inventory.Cards {
			if card.Health != gpu.Healthy {
				cards = append(cards, fmt.Sprintf("%d %s", card.Index, card.Health))
			}
		}
		if count += len(cards); len(cards) > 0 {
			sick = append(sick, fmt.Sprintf("%s (%s)", f.Nodes[i].Name, strings.Join(cards, ", ")))
		}
	}
	if count == 0 {
		return Check{Name: name, Status: OK, Text: "no agent reports a GPU that is not healthy"}
	}
	node, _, _ := strings.Cut(slices.Min(sick), " ")
	return Check{
		Name: name, Status: Warning, Text: fmt.Sprintf("%s not healthy, which no job gets: %s", counted(count, "GPU is", "GPUs are"), some(sick)),
		Advice: "see who still holds them: gpuctl top gpus --node " + node + "; cordon the node before it is mended: kubectl cordon " + node,
	}
}

func counted(count int, one, several string) string {
	if count == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", count, several)
}

// inventories looks for what nodes say of their GPUs and cannot be read, so that less is known of them.
func (f *Facts) inventories() Check {
	const name = "GPU inventories"
	if check, unread := f.unread(name, snapshot.PartNodes); unread {
		return check
	}
	var broken []string
	var first, cause string
	for i := range f.Nodes {
		node := &f.Nodes[i]
		_, err := gpu.InventoryOf(node)
		if err == nil {
			continue
		}
		broken = append(broken, node.Name)
		if first == "" || node.Name < first {
			first, cause = node.Name, strings.ReplaceAll(err.Error(), "\n", "; ")
		}
	}
	if len(broken) == 0 {
		return Check{Name: name, Status: OK, Text: "all that nodes say of their GPUs can be read"}
	}
	return Check{
		Name: name, Status: Warning,
		Text: fmt.Sprintf("what %s GPUs cannot be read, so that less is known of them: %s; %s: %s",
			counted(len(broken), "node says of its", "nodes say of their"), some(broken), first, shortened(cause)),
		Advice: "mend what writes it, the node's agent or labels: kubectl describe node " + first,
	}
}

// maxCause is how much of an error a check repeats: nodes may write what they like.
const maxCause = 200

func shortened(text string) string {
	if runes := []rune(text); len(runes) > maxCause {
		return string(runes[:maxCause]) + "…"
	}
	return text
}

// namespaces looks for namespaces that are on their way out, the user's own above all.
func (f *Facts) namespaces() Check {
	const name = "namespaces"
	if check, unread := f.unread(name, snapshot.PartNamespace); unread {
		return check
	}
	own := slices.IndexFunc(f.Namespaces, func(n corev1.Namespace) bool { return n.Name == f.Namespace })
	if own < 0 {
		return Check{
			Name: name, Status: Failed, Text: fmt.Sprintf("there is no namespace %s, so no job can be created in it", f.Namespace),
			Advice: "choose one that is there with -n, or have it made: kubectl create namespace " + f.Namespace,
		}
	}
	var ending []string
	for i := range f.Namespaces {
		if f.Namespaces[i].Status.Phase == corev1.NamespaceTerminating {
			ending = append(ending, f.Namespaces[i].Name)
		}
	}
	switch {
	case slices.Contains(ending, f.Namespace):
		return Check{
			Name: name, Status: Failed, Text: fmt.Sprintf("namespace %s is being deleted: nothing can be created in it, and its pods end%s",
				f.Namespace, holding(&f.Namespaces[own])),
			Advice: "choose another namespace with -n; when it is gone, it can be created again",
		}
	case len(ending) > 0:
		return Check{
			Name: name, Status: Warning, Text: counted(len(ending), "is", "are") + " being deleted: " + some(ending),
			Advice: "if that lasts, see what holds it: kubectl describe namespace " + slices.Min(ending),
		}
	}
	return Check{Name: name, Status: OK, Text: "namespace " + f.Namespace + " is there, and none is being deleted"}
}

// holding says what keeps a namespace from going, as far as Kubernetes tells.
func holding(namespace *corev1.Namespace) string {
	for _, condition := range namespace.Status.Conditions {
		held := condition.Type == corev1.NamespaceContentRemaining || condition.Type == corev1.NamespaceFinalizersRemaining ||
			condition.Type == corev1.NamespaceDeletionContentFailure
		if held && condition.Status == corev1.ConditionTrue {
			return "; " + shortened(condition.Message)
		}
	}
	return ""
}
