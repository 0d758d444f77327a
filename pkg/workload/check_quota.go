package workload

import (
	"slices"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
)

// checkQuota validates relations between fields of a quota.
func checkQuota(d *decoder, q *Quota) {
	if d.hasField("metadata") && !d.intendsField("default") && !d.intendsField("namespace") && !d.intendsField("spec") && !d.intendsField(singleNamespace) {
		d.errorf(d.keys["metadata"], "the quota names no namespace: write for example \"namespace: {alice: {gpu: 8}}\"")
	}
	if d.hasField(singleNamespace) && len(q.Namespaces) == 1 && d.hasField("spec") {
		checkBounded(d, d.keys["spec"], "spec")
	}
	named := 0
	for i := range q.Namespaces {
		if q.Namespaces[i].Namespace == corev1.NamespaceDefault {
			named++
		}
	}
	if named > 1 {
		at := d.valueAt("namespace")
		if d.hasField("spec.namespace") {
			at = d.valueAt("spec.namespace")
		}
		d.errorf(at, "the namespace default is given twice: keep default at the side of namespace, or in it")
	}
}

// checkBounded reports a namespace without any amount.
func checkBounded(d *decoder, at *yaml.Node, path string) {
	if !d.isSection(path) {
		return
	}
	for _, f := range amountFields(&NamespaceQuota{}) {
		if d.intendsField(joinPath(path, f.name)) {
			return
		}
	}
	d.errorf(at, "%s bounds nothing: write at least one of %s", path, joinAlternatives(amountFields(&NamespaceQuota{}).fieldNames(KindQuota)))
}

// fillDerived sets the defaults that depend on other fields.
func (q *Quota) fillDerived() {
	for i := range q.Namespaces {
		if n := &q.Namespaces[i]; n.SharedGPU == nil {
			n.SharedGPU = n.GPU
		}
	}
}

// DenyOtherProfiles sets the MIG profiles that the quota of a namespace does not name to zero if its GPUs are bounded, and returns which profiles
// these are.
func (n *NamespaceQuota) DenyOtherProfiles(profiles []string) []string {
	if n.GPU == nil {
		return nil
	}
	var added []string
	for _, profile := range profiles {
		if !slices.ContainsFunc(n.MIG, func(m MIGSlices) bool { return m.Profile == profile }) {
			n.MIG = append(n.MIG, MIGSlices{Profile: profile})
			added = append(added, profile)
		}
	}
	return added
}
