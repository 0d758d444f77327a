package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// addOverrideFlags adds the flags that change the job of a file before submission.
func addOverrideFlags(cmd *cobra.Command, o *jobplan.Overrides) {
	flags := cmd.Flags()
	flags.StringVar(&o.Name, "name", "", "The name of the job, instead of the file's")
	flags.StringArrayVar(&o.Set, "set", nil, "Set a field of the job: FIELD=VALUE, such as resources.gpu=8; may be repeated")
	_ = cmd.RegisterFlagCompletionFunc("set", completeAssignments("", workloadJobKinds()...))
	flags.StringArrayVar(&o.Env, "env", nil, "Set an environment variable of the job: NAME=VALUE; may be repeated")
}

// overrideJob applies the flags to the only job among the documents. The result is checked as the files were.
func (m *manifests) overrideJob(docs []submission) ([]submission, error) {
	if m.overrides.IsEmpty() && m.workdir == "" {
		return docs, nil
	}
	if len(docs) != 1 || docs[0].Job == nil {
		return nil, usageErrorf("--name, --set, --env and --workdir change one job, and the files hold %s; nothing was done", contentsOf(docs))
	}
	doc := docs[0]
	source, err := m.overrides.Apply(doc.Kind, doc.Source)
	if err == nil {
		source, err = m.setWorkdir(source)
	}
	if err != nil {
		return nil, usageErrorf("%w", err)
	}
	changed, err := m.factory.parseWritten(source, false) // warnings about the file were already printed
	if err != nil {
		return nil, err
	}
	changed.file, changed.path, changed.text, changed.Line = doc.file, doc.path, doc.text, doc.Line
	return []submission{changed}, nil
}

func contentsOf(docs []submission) phrase.Text {
	if len(docs) == 1 {
		return phrase.Textf("a %s", docs[0].Kind)
	}
	return phrase.Textf("%d documents", len(docs))
}

// diagnosticText formats a problem with its severity.
func diagnosticText(d workload.Diagnostic) phrase.Text {
	if d.Severity == workload.SeverityWarning {
		return phrase.Textf("warning: ").Add(d.Text)
	}
	return phrase.Textf("error: %s", d.Text)
}

// parseWritten parses a document that flags wrote or changed. Problems are printed without lines, which mean nothing to the user.
func (f *Factory) parseWritten(source string, warn bool) (submission, error) {
	docs, diagnostics := workload.Parse("", []byte(source))
	for _, d := range diagnostics {
		if warn || d.Severity == workload.SeverityError {
			fmt.Fprintln(f.IO.ErrOut, diagnosticText(d).Localize(f.outputLanguage()))
		}
	}
	if diagnostics.HasErrors() {
		return submission{}, usageErrorf("the job cannot be so; nothing was done")
	}
	return submission{Document: docs[0]}, nil
}
