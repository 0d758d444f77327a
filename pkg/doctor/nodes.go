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
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// devicePlugin looks for nodes whose labels indicate GPUs that the node does not offer, except to claims.
func (f *Facts) devicePlugin() Check {
	const name = "device plugin"
	if check, unread := f.unread(name, snapshot.PartNodes); unread {
		return check
	}
	var silent, claimed []string
	offering, drivers := 0, f.gpuDrivers()
	for i := range f.Nodes {
		node := &f.Nodes[i]
		switch {
		case offersGPUs(node):
			offering++
		case drivers[node.Name] != "":
			claimed = append(claimed, node.Name)
		case promisesGPUs(node):
			silent = append(silent, node.Name)
		}
	}
	switch {
	case len(silent) > 0:
		return Check{
			Name: name, Status: Failed, Text: phrase.Of("labelled with GPUs but offering none: %s", some(silent)),
			Advice: phrase.Of("the device plugin or the driver is down there: kubectl describe node %s and the logs of its nvidia-device-plugin pod", silent[0]),
		}
	case len(claimed) > 0:
		return Check{
			Name: name, Status: Warning, Text: phrase.Of("%d nodes offer GPUs, and those of these are for claims alone (ResourceClaims, driver %s), which no GPUQuota counts: %s",
				offering, drivers[slices.Min(claimed)], some(claimed)),
			Advice: phrase.Of("jobs of gpuctl get no GPU there: run NVIDIA's device plugin or gpu-agent on these nodes instead of the driver for claims, or leave them to pods with claims (docs/quotas.md)"),
		}
	case offering == 0:
		return Check{
			Name: name, Status: Failed, Text: phrase.Of("no node offers %s", names.ResourceGPU),
			Advice: phrase.Of("install NVIDIA's device plugin or GPU operator on the GPU nodes"),
		}
	}
	return Check{Name: name, Status: OK, Text: phrase.Of("%d nodes offer GPUs", offering)}
}

// gpuDrivers are the drivers that offer GPUs to claims, by node, as far as that may be read.
func (f *Facts) gpuDrivers() map[string]string {
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

// mostExamples is how many names a sentence lists.
const mostExamples = 5

func some(list []string) phrase.Text {
	slices.Sort(list)
	text := phrase.Quote(strings.Join(list[:min(len(list), mostExamples)], ", "))
	if more := len(list) - mostExamples; more > 0 {
		text = text.And(" and %d more", more)
	}
	return text
}

// labels looks for labels that are similar to a known one, but not equal.
func (f *Facts) labels() Check {
	const name = "labels of nodes"
	if check, unread := f.unread(name, snapshot.PartNodes); unread {
		return check
	}
	suspects := slices.Concat(f.misspeltKeys(), f.misspeltValues(phrase.Of("GPU type"), writtenType), f.misspeltValues(phrase.Of("pool"), gpu.PoolOf))
	if len(suspects) == 0 {
		return Check{Name: name, Status: OK, Text: phrase.Of("no key and no value looks like a slip")}
	}
	return Check{
		Name: name, Status: Warning, Text: phrase.Join(suspects, phrase.Of("; ")),
		Advice: phrase.Of("look at the node first (gpuctl describe node NAME): if its owner confirms the slip, correct it with gpuctl label node NAME KEY=VALUE --overwrite; jobs that name the old value then wait"),
	}
}

// nodeLabels are the labels that this project reads on nodes.
var nodeLabels = []string{names.LabelPool, names.LabelGPUType, names.LabelRack, names.LabelSharing}

// misspeltKeys finds labels that are meant to be one of ours: in another spelling, with a typo, or with the prefix of an older gpuctl.
func (f *Facts) misspeltKeys() []phrase.Text {
	found := slips{}
	for i := range f.Nodes {
		for key := range f.Nodes[i].Labels {
			if meant := meantKey(key); meant != "" {
				found.add(phrase.Of("label %s is not read, %s is", key, meant), f.Nodes[i].Name)
			}
		}
	}
	return found.sentences()
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
		if isKeySlip(plain.Replace(name), plain.Replace(meant)) {
			return known
		}
	}
	return ""
}

// isKeySlip reports whether a name is a known one in another case, or is one letter off it, two off a long one.
func isKeySlip(name, known string) bool {
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
	found := slips{}
	for _, rare := range values {
		for _, common := range values {
			if len(nodes[rare]) < len(nodes[common]) && isSlip(rare, common) {
				found.add(phrase.Of("%s %q may mean %q", what, rare, common), nodes[rare]...)
				break
			}
		}
	}
	return found.sentences()
}

// writtenType is the configured type of a node's GPUs. A measured type is never a typo.
func writtenType(node *corev1.Node) string {
	if node.Labels[names.LabelGPUType] == "" && node.Labels[names.LabelAccelerator] == "" {
		return ""
	}
	return gpu.TypeOf(node)
}

// slip is a suspicious label, and the nodes that it concerns.
type slip struct {
	says  phrase.Text
	nodes []string
}

// slips are by what they say in English.
type slips map[string]*slip

func (s slips) add(says phrase.Text, nodes ...string) {
	key := says.String()
	if s[key] == nil {
		s[key] = &slip{says: says}
	}
	s[key].nodes = append(s[key].nodes, nodes...)
}

// sentences lists them with their nodes, those of the most nodes first.
func (s slips) sentences() []phrase.Text {
	keys := slices.SortedFunc(maps.Keys(s), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(s[b].nodes), len(s[a].nodes)), cmp.Compare(a, b))
	})
	out := make([]phrase.Text, len(keys))
	for i, key := range keys {
		out[i] = phrase.Of("%s (%s)", s[key].says, some(s[key].nodes))
	}
	return out
}
