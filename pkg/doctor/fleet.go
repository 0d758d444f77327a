package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// hasGPUs reports whether a node offers GPUs, or has labels of GPUs.
func hasGPUs(node *corev1.Node) bool { return offersGPUs(node) || promisesGPUs(node) }

// checkNodesReady looks for nodes with GPUs that are down or disconnected.
func (f *Facts) checkNodesReady() Check {
	const name = "nodes"
	if check, unread := f.checkUnread(name, snapshot.PartNodes); unread {
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
		return Check{Name: name, Status: OK, Text: phrase.Textf("all %d nodes with GPUs are ready", all)}
	}
	check := Check{
		Name: name, Status: Warning, Text: phrase.Textf("%d of %d nodes with GPUs are not ready: %s", len(lost), all, examplesText(lost)),
		Advice: phrase.Textf("no job starts there: kubectl describe node %s says since when and why", slices.Min(lost)),
	}
	if len(lost) == all {
		check.Status = Failed
	}
	return check
}

// checkPools looks for pools in which every node is closed to new pods, or to those without tolerations.
func (f *Facts) checkPools() Check {
	const name = "pools"
	if check, unread := f.checkUnread(name, snapshot.PartNodes); unread {
		return check
	}
	members := map[string][]*corev1.Node{}
	for i := range f.Nodes {
		if hasGPUs(&f.Nodes[i]) {
			pool := gpu.PoolOf(&f.Nodes[i])
			members[pool] = append(members[pool], &f.Nodes[i])
		}
	}
	var closed []phrase.Text
	var advice phrase.Text
	for _, pool := range slices.Sorted(maps.Keys(members)) {
		if why, open := poolClosedReason(members[pool]); len(why) > 0 {
			closed = append(closed, phrase.Textf("pool %s: %s", pool, why))
			advice = firstNonEmpty(advice, open)
		}
	}
	if len(closed) == 0 {
		return Check{Name: name, Status: OK, Text: phrase.Textf("each has a node that takes jobs")}
	}
	return Check{Name: name, Status: Warning, Text: phrase.Textf("no job starts in %s", phrase.Join(closed, phrase.Textf("; "))), Advice: advice}
}

// firstNonEmpty is the first text, if it is not empty, else the second.
func firstNonEmpty(first, second phrase.Text) phrase.Text {
	if len(first) > 0 {
		return first
	}
	return second
}

// closedPool are the nodes of a pool that are closed for one reason.
type closedPool struct {
	reason, advice phrase.Text
	nodes          int
}

// poolClosedReason explains why no node of a pool takes a pod without tolerations, and what opens one; empty if one takes it.
func poolClosedReason(nodes []*corev1.Node) (why, open phrase.Text) {
	reasons := map[string]*closedPool{}
	for _, node := range nodes {
		reason, advice := closedReason(node)
		if len(reason) == 0 {
			return nil, nil
		}
		key := reason.String()
		if reasons[key] == nil {
			reasons[key] = &closedPool{reason: reason, advice: advice}
		}
		reasons[key].nodes++
	}
	var parts []phrase.Text
	for _, key := range slices.Sorted(maps.Keys(reasons)) {
		parts = append(parts, phrase.Textf("%d of %d nodes %s", reasons[key].nodes, len(nodes), reasons[key].reason))
		open = firstNonEmpty(open, reasons[key].advice)
	}
	return phrase.Join(parts, comma), open
}

// closedReason explains why a node takes no pod without tolerations, and what to do; empty if it takes one.
func closedReason(node *corev1.Node) (reason, advice phrase.Text) {
	obstacle, _ := fit.ClosedTo(node, nil)
	switch obstacle.Kind {
	case fit.Cordoned:
		return phrase.Textf("cordoned"), phrase.Textf("when the work on it is done: kubectl uncordon %s", node.Name)
	case fit.NotReady:
		return phrase.Textf("not ready"), phrase.Textf("kubectl describe node %s says why", node.Name)
	case fit.KeptOff:
		return phrase.Textf("kept off by gpu-controller (%s)", obstacle.What), phrase.Textf("gpuctl describe node %s says why", node.Name)
	case fit.Tainted:
		advice = phrase.Textf("jobs that may run there tolerate the taint in resources.tolerations")
		if strings.HasPrefix(obstacle.What, names.TaintMoving) {
			advice = phrase.Textf("if no gpuctl advise defrag --apply is at work there, open it: kubectl taint node %s %s-", node.Name, names.TaintMoving)
		}
		return phrase.Textf("with the taint %s", obstacle.What), advice
	}
	return nil, nil
}

// checkGPUHealth looks for GPUs that the agents found to be broken, which the scheduler does not allocate.
func (f *Facts) checkGPUHealth() Check {
	const name = "GPU health"
	if check, unread := f.checkUnread(name, snapshot.PartNodes); unread {
		return check
	}
	var sick []string
	count := 0
	for i := range f.Nodes {
		inventory, _ := gpu.InventoryOf(&f.Nodes[i]) // another check reports what cannot be read
		var cards []string
		for _, card := range inventory.GPUs {
			if card.Health != gpu.Healthy {
				cards = append(cards, fmt.Sprintf("%d %s", card.Index, card.Health))
			}
		}
		if count += len(cards); len(cards) > 0 {
			sick = append(sick, fmt.Sprintf("%s (%s)", f.Nodes[i].Name, strings.Join(cards, ", ")))
		}
	}
	if count == 0 {
		return Check{Name: name, Status: OK, Text: phrase.Textf("no agent reports a GPU that is not healthy")}
	}
	node, _, _ := strings.Cut(slices.Min(sick), " ")
	return Check{
		Name: name, Status: Warning, Text: chooseByCount(count, phrase.Textf("1 GPU is not healthy"), phrase.Textf("%d GPUs are not healthy", count)).Addf(", which no job gets: %s", examplesText(sick)),
		Advice: phrase.Textf("see who still holds them: gpuctl top gpus --node %[1]s; cordon the node before it is mended: kubectl cordon %[1]s", node),
	}
}

// chooseByCount chooses between the singular and the plural text.
func chooseByCount(count int, one, several phrase.Text) phrase.Text {
	if count == 1 {
		return one
	}
	return several
}

// checkInventories looks for unreadable GPU annotations of nodes, which reduce what is known of them.
func (f *Facts) checkInventories() Check {
	const name = "GPU inventories"
	if check, unread := f.checkUnread(name, snapshot.PartNodes); unread {
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
		return Check{Name: name, Status: OK, Text: phrase.Textf("all that nodes say of their GPUs can be read")}
	}
	return Check{
		Name: name, Status: Warning,
		Text: chooseByCount(len(broken), phrase.Textf("what 1 node says of its GPUs cannot be read"),
			phrase.Textf("what %d nodes say of their GPUs cannot be read", len(broken))).
			Addf(", so that less is known of them: %s; %s: %s", examplesText(broken), first, shortenText(cause)),
		Advice: phrase.Textf("mend what writes it, the node's agent or labels: kubectl describe node %s", first),
	}
}

// maxCauseLength is the maximum length of an error in a check: nodes may write any text.
const maxCauseLength = 200

func shortenText(text string) string {
	if runes := []rune(text); len(runes) > maxCauseLength {
		return string(runes[:maxCauseLength]) + "…"
	}
	return text
}

// checkNamespaces looks for terminating namespaces, the user's own above all.
func (f *Facts) checkNamespaces() Check {
	const name = "namespaces"
	if check, unread := f.checkUnread(name, snapshot.PartNamespace); unread {
		return check
	}
	own := slices.IndexFunc(f.Namespaces, func(n corev1.Namespace) bool { return n.Name == f.Namespace })
	if own < 0 {
		return Check{
			Name: name, Status: Failed, Text: phrase.Textf("there is no namespace %s, so no job can be created in it", f.Namespace),
			Advice: phrase.Textf("choose one that is there with -n, or have it made: kubectl create namespace %s", f.Namespace),
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
			Name: name, Status: Failed, Text: phrase.Textf("namespace %s is being deleted: nothing can be created in it, and its pods end%s",
				f.Namespace, deletionBlocker(&f.Namespaces[own])),
			Advice: phrase.Textf("choose another namespace with -n; when it is gone, it can be created again"),
		}
	case len(ending) > 0:
		return Check{
			Name: name, Status: Warning, Text: chooseByCount(len(ending), phrase.Textf("1 is being deleted"), phrase.Textf("%d are being deleted", len(ending))).Addf(": %s", examplesText(ending)),
			Advice: phrase.Textf("if that lasts, see what holds it: kubectl describe namespace %s", slices.Min(ending)),
		}
	}
	return Check{Name: name, Status: OK, Text: phrase.Textf("namespace %s is there, and none is being deleted", f.Namespace)}
}

// deletionBlocker explains what delays the deletion of a namespace, as far as Kubernetes reports it.
func deletionBlocker(namespace *corev1.Namespace) phrase.Text {
	for _, condition := range namespace.Status.Conditions {
		held := condition.Type == corev1.NamespaceContentRemaining || condition.Type == corev1.NamespaceFinalizersRemaining ||
			condition.Type == corev1.NamespaceDeletionContentFailure
		if held && condition.Status == corev1.ConditionTrue {
			return phrase.Textf("; %s", shortenText(condition.Message))
		}
	}
	return nil
}
