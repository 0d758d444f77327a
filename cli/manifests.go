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
	return usageErrorf("--dry-run is %q, want one of %s", value, strings.Join(choices, ", "))
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
	// mayExist says that the jobs may exist already, and keep what their pools gave them.
	mayExist bool
	// offline renders without reading from the cluster.
	offline bool
	// options are the render options used, once something was rendered.
	options render.Options
}

// readCreations reads, checks and renders every document before anything is sent. Quotas come first because they create namespaces, and pools come
// before jobs.
func (m *manifests) readCreations(ctx context.Context) ([]creation, error) {
	docs, err := m.factory.readDocuments(m.files)
	if err != nil {
		return nil, err
	}
	if docs, err = m.overrideJob(docs); err != nil {
		return nil, err
	}
	return m.renderDocuments(ctx, docs)
}

// renderDocuments renders documents as [manifests.readCreations] does.
func (m *manifests) renderDocuments(ctx context.Context, docs []submission) ([]creation, error) {
	if err := m.checkNamespace(docs); err != nil {
		return nil, err
	}
	docs, err := m.generateNames(docs)
	if err != nil {
		return nil, err
	}
	if docs, err = m.fillPresets(ctx, docs); err != nil {
		return nil, err
	}
	if docs, err = m.fillGPUShares(ctx, docs); err != nil {
		return nil, err
	}
	if docs, err = m.packFolders(ctx, docs); err != nil {
		return nil, err
	}
	if m.options, err = m.renderOptions(ctx, docs); err != nil {
		return nil, err
	}
	out := make([]creation, len(docs))
	for i, doc := range docs {
		objects, warnings, err := render.Objects(doc.Document, m.options)
		if err != nil {
			return nil, usageErrorf("%s%w", doc.positionPrefix(), err)
		}
		for _, warning := range warnings {
			m.factory.IO.printErr("%swarning: %s: %s", doc.fieldPrefix(warning.Field), warning.Field, warning.Message)
		}
		out[i] = creation{submission: doc, objects: objects}
	}
	slices.SortStableFunc(out, func(a, b creation) int { return cmp.Compare(creationOrder(a), creationOrder(b)) })
	m.setSubmitter(ctx, out)
	return out, nil
}

// generateNames generates the names of jobs that have only a name prefix, if each is to be a new job.
func (m *manifests) generateNames(docs []submission) ([]submission, error) {
	out := slices.Clone(docs)
	for i := range out {
		switch {
		case !out[i].GeneratesName():
			continue
		case m.mayExist:
			return nil, usageErrorf("%sjob.generate-name is for gpuctl create, which makes another job each time: a job that is there is found by its job.name; nothing was done", out[i].fieldPrefix("job.generate-name"))
		}
		named, err := jobplan.WithGeneratedName(out[i].Document, rand.String(len(workload.PlaceholderSuffix)))
		if err != nil {
			return nil, usageErrorf("%s%w", out[i].positionPrefix(), err)
		}
		out[i].Document = named
	}
	return out, nil
}

// fillPresets fills in the presets of jobs. Without a cluster the presets are skipped, with a warning.
func (m *manifests) fillPresets(ctx context.Context, docs []submission) ([]submission, error) {
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
			m.factory.IO.printErr("%swarning: resources.preset is left out: only the cluster knows what it says", out[i].fieldPrefix("resources.preset"))
			continue
		case !out[i].usesPreset():
			continue
		}
		filled, err := jobplan.FillPreset(out[i].Document, presets)
		if err != nil {
			return nil, usageErrorf("%s%w; nothing was done", out[i].fieldPrefix("resources.preset"), err)
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
			return usageErrorf("%sjob.namespace is %s, and -n says %s: leave one of them out; nothing was done", doc.fieldPrefix("job.namespace"), doc.Namespace, given)
		}
	}
	return nil
}

// setSubmitter records the submitting user on jobs. If the cluster does not tell the user's name, jobs have none.
func (m *manifests) setSubmitter(ctx context.Context, creations []creation) {
	if m.offline || !slices.ContainsFunc(creations, func(c creation) bool { return c.Job != nil }) {
		return
	}
	user, err := m.factory.whoAmI(ctx)
	if err != nil {
		return
	}
	for _, c := range creations {
		if c.Job != nil {
			submit.SetSubmitter(c.objects[0], user)
		}
	}
}

func creationOrder(c creation) int {
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
	namespace, err := m.factory.currentNamespace()
	if err != nil {
		return render.Options{}, err
	}
	reader, err := m.factory.newReader()
	if err != nil {
		return render.Options{}, err
	}
	options, warnings, err := submit.RenderOptions(ctx, reader, documentsOf(docs), namespace)
	options.Now = m.factory.Now()
	for _, warning := range warnings {
		m.factory.IO.printErr("warning: %s", warning)
	}
	return options, err
}
