package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// Values of --dry-run.
const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
)

// addDryRunFlag adds --dry-run, which without a value is bare.
func addDryRunFlag(cmd *cobra.Command, value *string, bare string) {
	usage := "none, or server: let the API server check the change, and change nothing"
	choices := []string{dryRunNone, dryRunServer}
	if bare == dryRunClient {
		usage = "none; client: only print the objects; server: let the API server check them, and create nothing"
		choices = []string{dryRunNone, dryRunClient, dryRunServer}
	}
	cmd.Flags().StringVar(value, "dry-run", dryRunNone, usage)
	cmd.Flags().Lookup("dry-run").NoOptDefVal = bare
	_ = cmd.RegisterFlagCompletionFunc("dry-run", cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp))
}

func checkDryRun(value string, choices ...string) error {
	if slices.Contains(choices, value) {
		return nil
	}
	return usagef("--dry-run is %q, want one of %s", value, strings.Join(choices, ", "))
}

// creation is one document with the objects rendered from it.
type creation struct {
	submission
	objects []client.Object
}

func (c creation) String() string { return string(c.Kind) + "/" + c.Name }

// manifests are the files of a command, and how it renders them.
type manifests struct {
	factory *Factory
	files   []string
	// overrides change the only job of the files.
	overrides jobplan.Overrides
	// workdir is the folder to send with the only job of the files; "" keeps that of the files.
	workdir string
	// unsent says that nothing will be sent, whatever is rendered.
	unsent bool
	// again says that the jobs may exist already, and keep what their pools gave them.
	again bool
	// offline renders without reading from the cluster.
	offline bool
	// options are the render options used, once something was rendered.
	options render.Options
}

// read reads, checks and renders every document before anything is sent. Quotas come first because they create namespaces, and pools come
// before jobs.
func (m *manifests) read(ctx context.Context) ([]creation, error) {
	docs, err := m.factory.readDocuments(m.files)
	if err != nil {
		return nil, err
	}
	if docs, err = m.override(docs); err != nil {
		return nil, err
	}
	return m.render(ctx, docs)
}

// render renders documents as [manifests.readCreations] does.
func (m *manifests) render(ctx context.Context, docs []submission) ([]creation, error) {
	if err := m.checkNamespace(docs); err != nil {
		return nil, err
	}
	docs, err := m.name(docs)
	if err != nil {
		return nil, err
	}
	if docs, err = m.fill(ctx, docs); err != nil {
		return nil, err
	}
	if docs, err = m.share(ctx, docs); err != nil {
		return nil, err
	}
	if docs, err = m.pack(ctx, docs); err != nil {
		return nil, err
	}
	if m.options, err = m.renderOptions(ctx, docs); err != nil {
		return nil, err
	}
	out := make([]creation, len(docs))
	for i, doc := range docs {
		objects, warnings, err := render.Objects(doc.Document, m.options)
		if err != nil {
			return nil, usagef("%s%w", doc.at(), err)
		}
		for _, warning := range warnings {
			m.factory.IO.tell("%swarning: %s: %s", doc.atField(warning.Field), warning.Field, warning.Message)
		}
		out[i] = creation{submission: doc, objects: objects}
	}
	slices.SortStableFunc(out, func(a, b creation) int { return cmp.Compare(rank(a), rank(b)) })
	m.sign(ctx, out)
	return out, nil
}

// name generates the names of jobs that have only a name prefix, if each is to be a new job.
func (m *manifests) name(docs []submission) ([]submission, error) {
	out := slices.Clone(docs)
	for i := range out {
		switch {
		case !out[i].NamesItself():
			continue
		case m.again:
			return nil, usagef("%sjob.generate-name is for gpuctl create, which makes another job each time: a job that is there is found by its job.name; nothing was done", out[i].atField("job.generate-name"))
		}
		named, err := jobplan.Named(out[i].Document, rand.String(len(workload.UnmadeSuffix)))
		if err != nil {
			return nil, usagef("%s%w", out[i].at(), err)
		}
		out[i].Document = named
	}
	return out, nil
}

// fill fills in the presets of jobs. Without a cluster the presets are skipped, with a warning.
func (m *manifests) fill(ctx context.Context, docs []submission) ([]submission, error) {
	if !slices.ContainsFunc(docs, submission.usesPreset) {
		return docs, nil
	}
	var presets map[string]string
	if !m.offline {
		var err error
		if presets, err = m.factory.presetTexts(ctx); err != nil {
			return nil, err
		}
	}
	out := slices.Clone(docs)
	for i := range out {
		switch {
		case out[i].usesPreset() && m.offline:
			m.factory.IO.tell("%swarning: resources.preset is left out: only the cluster knows what it says", out[i].atField("resources.preset"))
			continue
		case !out[i].usesPreset():
			continue
		}
		filled, err := jobplan.Filled(out[i].Document, presets)
		if err != nil {
			return nil, usagef("%s%w; nothing was done", out[i].atField("resources.preset"), err)
		}
		out[i].Document = filled
	}
	return out, nil
}

// checkNamespace refuses a namespace on the command line that contradicts one in a file.
func (m *manifests) checkNamespace(docs []submission) error {
	given := m.factory.explicitNamespace()
	for _, doc := range docs {
		if given != "" && doc.Namespace != "" && doc.Namespace != given {
			return usagef("%sjob.namespace is %s, and -n says %s: leave one of them out; nothing was done", doc.atField("job.namespace"), doc.Namespace, given)
		}
	}
	return nil
}

// sign records the submitting user on jobs. If the cluster does not tell the user's name, jobs have none.
func (m *manifests) sign(ctx context.Context, creations []creation) {
	if m.offline || !slices.ContainsFunc(creations, func(c creation) bool { return c.Job != nil }) {
		return
	}
	user, err := m.factory.whoAmI(ctx)
	if err != nil {
		return
	}
	for _, c := range creations {
		if c.Job != nil {
			submit.Sign(c.objects[0], user)
		}
	}
}

func rank(c creation) int {
	switch {
	case c.Quota != nil:
		return 0
	case c.Pool != nil:
		return 1
	case c.Reservation != nil: // before the jobs that it excludes from nodes, or admits to them
		return 2
	}
	return 3
}

// renderOptions reads from the cluster what rendering depends on. Offline, that is only the namespace.
func (m *manifests) renderOptions(ctx context.Context, docs []submission) (render.Options, error) {
	if m.offline {
		return render.Options{Namespace: m.factory.explicitNamespace(), Now: m.factory.Now(), PoolsUnknown: true}, nil
	}
	namespace, err := m.factory.namespace()
	if err != nil {
		return render.Options{}, err
	}
	reader, err := m.factory.reader()
	if err != nil {
		return render.Options{}, err
	}
	options, warnings, err := submit.RenderOptions(ctx, reader, documentsOf(docs), namespace)
	options.Now = m.factory.Now()
	for _, warning := range warnings {
		m.factory.IO.tell("warning: %s", warning)
	}
	return options, err
}
