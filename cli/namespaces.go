package cli

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

type getNamespacesOptions struct {
	listing[inventory.Namespace]
	factory *Factory
}

func newGetNamespacesCmd(f *Factory) *cobra.Command {
	o := &getNamespacesOptions{factory: f}
	cmd := &cobra.Command{
		Use:     "namespaces [NAME]...",
		Aliases: []string{"namespace", "ns"},
		Short:   "List namespaces, and the quotas that bound them",
		Example: "  gpuctl get namespaces",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args
			namespaces, err := f.readNamespaces(cmd.Context())
			if err != nil {
				return err
			}
			return o.printNamed(namespaces)
		},
	}
	o.listing = listing[inventory.Namespace]{
		io: f.IO, now: f.Now, noun: "namespace",
		columns: namespaceColumns,
		name:    func(n inventory.Namespace) string { return n.Name },
		id:      func(n inventory.Namespace) string { return n.Name },
		print:   func(n inventory.Namespace) string { return "namespace/" + n.Name },
	}
	o.addListFlags(cmd)
	return cmd
}

func (f *Factory) readNamespaces(ctx context.Context) ([]inventory.Namespace, error) {
	reader, err := f.newReader()
	if err != nil {
		return nil, err
	}
	return reader.Namespaces(ctx)
}

func namespaceColumns(now time.Time) []column[inventory.Namespace] {
	type namespace = inventory.Namespace
	return []column[namespace]{
		{header: "NAME", value: func(n namespace) string { return n.Name }},
		{header: "STATUS", value: func(n namespace) string { return n.Status }},
		{header: "MADE-BY-GPUCTL", value: func(n namespace) string { return strconv.FormatBool(n.Managed) }},
		{header: "QUOTA", value: func(n namespace) string {
			if n.Quota == nil {
				return ""
			}
			return n.Quota.Name
		}},
		{header: "AGE", value: func(n namespace) string { return formatAge(now, n.Created) }},
	}
}

func newDescribeNamespaceCmd(f *Factory) *cobra.Command {
	var o *output
	cmd := &cobra.Command{
		Use:     "namespace NAME",
		Aliases: []string{"namespaces", "ns"},
		Short:   "Show one namespace: its quotas, its limits and its jobs",
		Example: "  gpuctl describe namespace nlp-team",
		Args:    requireOneArg(phrase.Textf("the name of one namespace")),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDescribeNamespace(cmd.Context(), f, o, args[0])
		},
	}
	o = describeOutput(cmd)
	return cmd
}

// namespaceDetail is a namespace with its jobs.
type namespaceDetail struct {
	inventory.Namespace
	Jobs []inventory.Job `json:"jobs"`
	inventory.Limits
}

func runDescribeNamespace(ctx context.Context, f *Factory, o *output, name string) error {
	namespaces, err := f.readNamespaces(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(namespaces, func(n inventory.Namespace) bool { return n.Name == name })
	if i < 0 {
		return &notFoundError{
			what: phrase.Textf("namespace %q", name), near: suggestSimilarBy(name, namespaces, func(n *inventory.Namespace) string { return n.Name }),
		}
	}
	reader, err := f.newReader()
	if err != nil {
		return err
	}
	detail := namespaceDetail{Namespace: namespaces[i]}
	if detail.Jobs, err = reader.Jobs(ctx, inventory.JobQuery{Namespace: name}); err != nil {
		return err
	}
	if detail.Limits, err = reader.Limits(ctx, name); err != nil {
		return err
	}
	if o.format != "" {
		return writeEncoded(f.IO.Out, o.format, detail)
	}
	return describeNamespace(newDescription(f.IO), detail, f.Now())
}

func describeNamespace(d *description, namespace namespaceDetail, now time.Time) error {
	d.writeField("Name", namespace.Name)
	d.writeField("Status", namespace.Status)
	d.writeFieldf("Created", "%s", momentText(namespace.Created, now))
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(namespace.Labels)) {
		labels = append(labels, key+"="+namespace.Labels[key])
	}
	d.writeField("Labels", strings.Join(labels, ", "))
	if namespace.Quota != nil {
		if err := describeRows(d, phrase.Textf("Quota %s", namespace.Quota.Name).Localize(d.language), namespace.Quota.Resources, boundColumns()); err != nil {
			return err
		}
	}
	if err := describeLimits(d, namespace.Limits); err != nil {
		return err
	}
	d.limitTableWidth()
	return describeRows(d, "Jobs", namespace.Jobs, jobColumns(now, false))
}
