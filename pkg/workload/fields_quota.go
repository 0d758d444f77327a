package workload

import (
	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Maximum numbers in quotas: more than any cluster has.
const (
	maxQuotaGPUs = 1_000_000
	maxQuotaPods = 1_000_000
)

// quotaFields is the table of kind quota. It decodes into q, and the fields of the single namespace that metadata names into single. A quota may be
// written as metadata or quota with its namespaces at the top, as metadata with the namespaces in spec, or, for one namespace, as metadata with that
// namespace and spec with its amounts.
func quotaFields(q *Quota, single *NamespaceQuota) fields {
	fs := append(headFields(KindQuota),
		field{name: "metadata", aliases: []string{"quota"}, required: true, value: sectionValue(quotaIdentityFields(q, single)),
			doc: "What the quota is called. May also be written as quota."},
	)
	fs = append(fs, namespacesFields(q, "spec.")...)
	spec := namespacesFields(q, "")
	for _, f := range amountFields(single) {
		f.needs, f.excludes = []string{singleNamespace}, severalNamespaces
		spec = append(spec, f)
	}
	return append(fs, field{name: "spec", value: sectionValue(spec), example: "{gpu: 8}",
		doc: "May hold default and namespace, instead of the top of the document, or the amounts of the one namespace in metadata."})
}

// singleNamespace is the field that names the only namespace of a quota, and severalNamespaces are the fields that it excludes.
const singleNamespace = "metadata.namespace"

var severalNamespaces = []string{".default", ".namespace", "spec.default", "spec.namespace"}

func quotaIdentityFields(q *Quota, single *NamespaceQuota) fields {
	return fields{
		{name: "name", required: true, value: scalarValue(&q.Name, "name", labelValue), example: "research-quota",
			doc: "The name of the quota."},
		descriptionField(&q.Description, "GPUs of the research groups"),
		{name: "namespace", needs: []string{".spec"}, excludes: severalNamespaces, def: "none", example: "alice",
			value: scalarValue(&single.Namespace, "name", dnsLabel(63)),
			doc:   "The only namespace of the quota, whose amounts are in spec. A namespace that does not exist is made."},
	}
}

// namespacesFields are the fields for namespaces; elsewhere is the path prefix of their alternative place, if this is the primary one.
func namespacesFields(q *Quota, elsewhere string) fields {
	not := func(name string) []string {
		if elsewhere == "" {
			return nil
		}
		return []string{elsewhere + name}
	}
	namespaces := namedSections(&q.Namespaces, namedSpec[NamespaceQuota]{
		noun: "namespace", describe: "section of namespaces, or list",
		table: func(n *NamespaceQuota) fields {
			return append(fields{{name: "name", required: true, value: scalarValue(&n.Namespace, "name", dnsLabel(63)), example: "alice",
				doc: "The namespace, in the list form; in the section form it is the key."}}, amountFields(n)...)
		},
		name:  func(n *NamespaceQuota) string { return n.Namespace },
		check: checkBounded,
	})
	return fields{
		{name: "default", excludes: not("default"), example: `{gpu: 8}`, value: defaultNamespace(&q.Namespaces), def: "unbounded",
			doc: "What the jobs of the namespace default may reserve together."},
		{name: "namespace", aliases: []string{"namespaces"}, excludes: not("namespace"), value: namespaces, def: "none", typical: elsewhere != "", example: `[{name: alice, gpu: 8}]`,
			doc: "What the jobs of each namespace may reserve together: a section of namespaces, or a list with their names. " +
				"A namespace that does not exist is made."},
	}
}

// defaultNamespace is the section of the namespace default, which every cluster has.
func defaultNamespace(to *[]NamespaceQuota) value {
	n := NamespaceQuota{Namespace: corev1.NamespaceDefault}
	v := sectionValue(amountFields(&n))
	amounts := v.decode
	v.decode = func(d *decoder, node *yaml.Node, path string) {
		amounts(d, node, path)
		*to = append(*to, n)
	}
	return v
}

// amountFields are the bounds of one namespace.
func amountFields(n *NamespaceQuota) fields {
	const unbounded = "unbounded"
	return fields{
		{name: "gpu", value: optionalWhole(&n.GPU, "whole number", 0, maxQuotaGPUs), def: unbounded, example: "8",
			doc: "Whole GPUs. 0 allows none."},
		{name: "shared-gpu", value: optionalWhole(&n.SharedGPU, "whole number", 0, maxQuotaGPUs), def: "gpu", example: "16",
			doc: "Parts of GPUs: as many GPUs as jobs with gpu-share may hold a part of, in pools that share them."},
		{name: "mig", value: migSlices(&n.MIG, 0, maxQuotaGPUs), def: "none of what nodes offer, where gpu is bounded",
			doc: "MIG slices, by profile: {3g.20gb: 4, 1g.5gb: 0}."},
		{name: "cpu", value: optionalValue(&n.CPU, "amount of CPU", totalParser(phrase.Textf("an amount of CPU such as 8 or 500m"))), def: unbounded, example: "128",
			doc: "CPU cores. Each pod of the namespace must then say its cpu."},
		{name: "memory", value: optionalValue(&n.Memory, "amount of memory", totalParser(phrase.Textf("an amount of memory such as 512Mi or 32Gi"))), def: unbounded, example: "1Ti",
			doc: "Memory, as reserved and as limited. Each pod of the namespace must then say its memory."},
		{name: "storage", value: optionalValue(&n.Storage, "amount of storage", totalParser(phrase.Textf("an amount of storage such as 500Gi or 2Ti"))), def: unbounded, example: "10Ti",
			doc: "The size of all claims together."},
		{name: "pods", value: optionalWhole(&n.Pods, "whole number", 0, maxQuotaPods), def: unbounded, example: "100",
			doc: "Pods that run or wait."},
	}
}
