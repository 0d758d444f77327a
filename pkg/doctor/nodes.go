package doctor

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/nodestate"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// checkDevicePlugin looks for nodes whose labels indicate GPUs that the node does not offer, except to claims.
func (f *Facts) checkDevicePlugin() Check {
	const name = "device plugin"
	if check, unread := f.checkUnread(name, snapshot.PartNodes); unread {
		return check
	}
	var silent, claimed, away []string
	offering, drivers := 0, f.checkGPUDrivers()
	for i := range f.Nodes {
		node := &f.Nodes[i]
		switch {
		case nodestate.AgentClosure(node) != nil, nodestate.IsAgentAway(node):
			away = append(away, node.Name)
		case offersGPUs(node):
			offering++
		case drivers[node.Name] != "":
			claimed = append(claimed, node.Name)
		case promisesGPUs(node):
			silent = append(silent, node.Name)
		}
	}
	switch {
	case len(away) > 0:
		return f.agentAway(name, away)
	case len(silent) > 0:
		return Check{
			Name: name, Status: Failed, Text: phrase.Textf("labelled with GPUs but offering none: %s", examplesText(silent)),
			Advice: phrase.Textf("the device plugin or the driver is down there: kubectl describe node %s and the logs of its nvidia-device-plugin pod", silent[0]),
		}
	case len(claimed) > 0:
		return Check{
			Name: name, Status: Warning, Text: phrase.Textf("%d nodes offer GPUs, and those of these are for claims alone (ResourceClaims, driver %s), which no GPUQuota counts: %s",
				offering, drivers[slices.Min(claimed)], examplesText(claimed)),
			Advice: phrase.Textf("jobs of gpuctl get no GPU there: run NVIDIA's device plugin or gpu-agent on these nodes instead of the driver for claims, or leave them to pods with claims (docs/quotas.md)"),
		}
	case offering == 0:
		return Check{
			Name: name, Status: Failed, Text: phrase.Textf("no node offers %s", names.ResourceGPU),
			Advice: phrase.Textf("install NVIDIA's device plugin or GPU operator on the GPU nodes"),
		}
	}
	return Check{Name: name, Status: OK, Text: phrase.Textf("%d nodes offer GPUs", offering)}
}

// agentAway tells of nodes whose gpu-agent gives out no GPUs, and what is wrong with the first.
func (f *Facts) agentAway(name string, nodes []string) Check {
	slices.Sort(nodes)
	check := Check{
		Name: name, Status: Failed, Text: phrase.Textf("gpu-agent gives out no GPUs: %s", examplesText(nodes)),
		Advice: phrase.Textf("gpu-agent is down there, or all cards are broken: kubectl describe node %s and the logs of its gpu-agent pod in namespace kube-system", nodes[0]),
	}
	for i := range f.Nodes {
		if closed := nodestate.AgentClosure(&f.Nodes[i]); closed != nil && f.Nodes[i].Name == nodes[0] {
			check.Text = check.Text.Addf("; %s says %s", nodes[0], closed.Message)
		}
	}
	return check
}

// checkGPUDrivers are the drivers that offer GPUs to claims, by node, as far as that may be read.
func (f *Facts) checkGPUDrivers() map[string]string {
	out := map[string]string{}
	for i := range f.ResourceSlices {
		spec := &f.ResourceSlices[i].Spec
		if spec.NodeName != nil && len(spec.Devices) > 0 && strings.HasPrefix(spec.Driver, "gpu.") {
			out[*spec.NodeName] = spec.Driver
		}
	}
	return out
}

func offersGPUs(node *corev1.Node) bool {
	for name, quantity := range node.Status.Allocatable {
		gpus := names.IsGPU(name)
		if gpus && quantity.Sign() > 0 {
			return true
		}
	}
	return false
}

func promisesGPUs(node *corev1.Node) bool {
	return gpu.TypeOf(node) != "" || !slices.Contains([]string{"", "0"}, node.Labels[names.LabelNVIDIACount])
}

// maxExamples is how many names a sentence lists.
const maxExamples = 5

func examplesText(list []string) phrase.Text {
	slices.Sort(list)
	text := phrase.Quote(strings.Join(list[:min(len(list), maxExamples)], ", "))
	if more := len(list) - maxExamples; more > 0 {
		text = text.Addf(" and %d more", more)
	}
	return text
}

// checkTypes looks for nodes with GPUs of which no label tells the type: no job goes there that names one.
func (f *Facts) checkTypes() Check {
	const name = "GPU types"
	if check, unread := f.checkUnread(name, snapshot.PartNodes); unread {
		return check
	}
	var untyped []string
	for i := range f.Nodes {
		if node := &f.Nodes[i]; offersGPUs(node) && gpu.TypeOf(node) == "" && !misspellsType(node) {
			untyped = append(untyped, node.Name)
		}
	}
	if len(untyped) == 0 {
		return Check{Name: name, Status: OK, Text: phrase.Textf("each node with GPUs says of which type they are")}
	}
	return Check{
		Name: name, Status: Warning, Text: phrase.Textf("no label says of which type the GPUs are, so that no job goes there that names one: %s", examplesText(untyped)),
		Advice: phrase.Textf("gpu-agent and NVIDIA's GPU feature discovery write it, or: kubectl label node %s %s=TYPE", untyped[0], names.LabelGPUType),
	}
}

// misspellsType reports whether a node has a label that is meant to be the one of the GPU type, of which checkNodeLabels speaks.
func misspellsType(node *corev1.Node) bool {
	for key := range node.Labels {
		if meantKey(key) == names.LabelGPUType {
			return true
		}
	}
	return false
}

// checkNodeLabels looks for labels that are similar to a known one, but not equal.
func (f *Facts) checkNodeLabels() Check {
	const name = "labels of nodes"
	if check, unread := f.checkUnread(name, snapshot.PartNodes); unread {
		return check
	}
	suspects := slices.Concat(f.misspeltKeys(), f.misspeltValues(phrase.Textf("GPU type"), writtenType), f.misspeltValues(phrase.Textf("pool"), gpu.PoolOf))
	if len(suspects) == 0 {
		return Check{Name: name, Status: OK, Text: phrase.Textf("no key and no value looks like a slip")}
	}
	return Check{
		Name: name, Status: Warning, Text: phrase.Join(suspects, phrase.Textf("; ")),
		Advice: phrase.Textf("look at the node first (gpuctl describe node NAME): if its owner confirms the slip, correct it with gpuctl label node NAME KEY=VALUE --overwrite; jobs that name the old value then wait"),
	}
}

// nodeLabels are the labels that this project reads on nodes.
var nodeLabels = []string{names.LabelPool, names.LabelGPUType, names.LabelRack, names.LabelSharing}

// misspeltKeys finds labels that are meant to be one of ours: in another spelling, with a typo, or with the prefix of an older gpuctl.
func (f *Facts) misspeltKeys() []phrase.Text {
	found := typos{}
	for i := range f.Nodes {
		for key := range f.Nodes[i].Labels {
			if meant := meantKey(key); meant != "" {
				found.addTypo(phrase.Textf("label %s is not read, %s is", key, meant), f.Nodes[i].Name)
			}
		}
	}
	return found.typoTexts()
}

func meantKey(key string) string {
	if slices.Contains(nodeLabels, key) {
		return ""
	}
	prefix, name, ok := strings.Cut(key, "/")
	if !ok || prefix != names.GroupName && prefix != "runwhere.ai" {
		return ""
	}
	plain := strings.NewReplacer("-", "", "_", "")
	for _, known := range nodeLabels {
		_, meant, _ := strings.Cut(known, "/")
		if isKeyTypo(plain.Replace(name), plain.Replace(meant)) {
			return known
		}
	}
	return ""
}

// isKeyTypo reports whether a name is a known one in another case, or is one letter off it, two off a long one.
func isKeyTypo(name, known string) bool {
	name, known = strings.ToLower(name), strings.ToLower(known)
	return levenshtein.ComputeDistance(name, known) <= max(1, len(known)/4)
}

// misspeltValues finds values that may be typos of a value on more nodes: see [isTypo].
func (f *Facts) misspeltValues(what phrase.Text, value func(*corev1.Node) string) []phrase.Text {
	nodes := map[string][]string{}
	for i := range f.Nodes {
		if v := value(&f.Nodes[i]); v != "" {
			nodes[v] = append(nodes[v], f.Nodes[i].Name)
		}
	}
	values := slices.Sorted(maps.Keys(nodes))
	found := typos{}
	for _, rare := range values {
		for _, common := range values {
			if len(nodes[rare]) < len(nodes[common]) && isTypo(rare, common) {
				found.addTypo(phrase.Textf("%s %q may mean %q", what, rare, common), nodes[rare]...)
				break
			}
		}
	}
	return found.typoTexts()
}

// writtenType is the configured type of a node's GPUs. A measured type is never a typo.
func writtenType(node *corev1.Node) string {
	if node.Labels[names.LabelGPUType] == "" && slices.Contains([]string{"", names.NoGPUType}, node.Labels[names.LabelAccelerator]) {
		return ""
	}
	return gpu.TypeOf(node)
}

// typo is a suspicious label, and the nodes that it concerns.
type typo struct {
	message phrase.Text
	nodes   []string
}

// typos are by what they say in English.
type typos map[string]*typo

func (s typos) addTypo(says phrase.Text, nodes ...string) {
	key := says.String()
	if s[key] == nil {
		s[key] = &typo{message: says}
	}
	s[key].nodes = append(s[key].nodes, nodes...)
}

// typoTexts lists them with their nodes, those of the most nodes first.
func (s typos) typoTexts() []phrase.Text {
	keys := slices.SortedFunc(maps.Keys(s), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(s[b].nodes), len(s[a].nodes)), cmp.Compare(a, b))
	})
	out := make([]phrase.Text, len(keys))
	for i, key := range keys {
		out[i] = phrase.Textf("%s (%s)", s[key].message, examplesText(s[key].nodes))
	}
	return out
}
