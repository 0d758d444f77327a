package gpu

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// gpuModel is the GPUs of one product, on a node that has several.
type gpuModel struct {
	// names are what types may call these GPUs.
	names []string
	gpus  Set
}

// findModels returns the models of an inventory, nil if all GPUs are of one or one is unknown: then the node's labels hold for all of them. With
// several models, the label of discovery names any and may change. So each GPU matches its product, and the most common one, the first of equals,
// also matches the administrator's name for the node.
func findModels(inventory *Inventory, own []string) []gpuModel {
	var out []gpuModel
	for i := range inventory.GPUs {
		product := inventory.GPUs[i].Product
		if product == "" {
			return nil
		}
		at := slices.IndexFunc(out, func(m gpuModel) bool { return m.names[0] == product })
		if at < 0 {
			at = len(out)
			out = append(out, gpuModel{names: []string{product}})
		}
		out[at].gpus |= singleGPU(i)
	}
	if len(out) < 2 {
		return nil
	}
	most := 0
	for i := range out {
		if out[i].gpus.Len() > out[most].gpus.Len() {
			most = i
		}
	}
	for _, name := range own {
		if !slices.ContainsFunc(out, func(m gpuModel) bool { return m.names[0] == name }) {
			out[most].names = append(out[most].names, name)
		}
	}
	return out
}

// ownTypes returns the administrator's names for the GPUs of a node.
func ownTypes(node *corev1.Node) []string {
	var own []string
	for _, label := range []string{names.LabelGPUType, names.LabelAccelerator} {
		if name := node.Labels[label]; name != "" && name != names.NoGPUType {
			own = append(own, name)
		}
	}
	return own
}

// ModelsOf returns the products of a node with GPUs of several models. It is empty if they are of one model or unknown.
func ModelsOf(node *corev1.Node) []string {
	text := node.Annotations[names.AnnotationInventory]
	if !namesSeveral(text) {
		return nil
	}
	inventory, err := ParseInventory(text)
	if err != nil {
		return nil
	}
	var products []string
	for _, m := range findModels(&inventory, nil) {
		products = append(products, m.names[0])
	}
	return products
}

// namesSeveral reports whether a text may have two products. It is called for each node, and few texts need parsing.
func namesSeveral(text string) bool {
	const key = `"product"`
	first := ""
	for {
		var found bool
		if _, text, found = strings.Cut(text, key); !found {
			return false
		}
		value, _, _ := strings.Cut(text, ",")
		value, _, _ = strings.Cut(value, "}")
		if value = strings.TrimSpace(value); first == "" {
			first = value
		} else if value != first {
			return true
		}
	}
}

// gpusOfTypes returns the GPUs of a type that a demand accepts.
func (a *Allocator) gpusOfTypes(d *Demand) Set {
	if a.models == nil || d.Types.IsAny() {
		return a.all
	}
	var cards Set
	for i := range a.models {
		if d.Types.acceptsAny(a.models[i].names) {
			cards |= a.models[i].gpus
		}
	}
	return cards
}

// acceptsAny reports whether GPUs with these names are of a type that the pod accepts.
func (t *Types) acceptsAny(called []string) bool {
	answers := func(of []string) bool {
		return slices.ContainsFunc(called, func(name string) bool { return slices.Contains(of, name) })
	}
	if len(t.Accepted) > 0 && !answers(t.Accepted) {
		return false
	}
	return !slices.ContainsFunc(t.Selected, func(values []string) bool { return !answers(values) })
}

// describeModels encodes models such that equal texts are equal models.
func describeModels(models []gpuModel) string {
	if models == nil {
		return ""
	}
	return fmt.Sprintf("%#v", models)
}
