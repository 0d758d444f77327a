package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

type validateOptions struct {
	io    IOStreams
	files []string
}

func newValidateCmd(f *Factory) *cobra.Command {
	o := &validateOptions{io: f.IO}
	cmd := &cobra.Command{
		Use:   "validate -f FILE",
		Short: "Check YAML files, and report every error with its line",
		Example: "  gpuctl validate -f train.yaml\n" +
			"  gpuctl validate -f jobs/",
		Args: moreFiles,
		RunE: func(*cobra.Command, []string) error { return runValidate(o) },
	}
	addFilesFlag(cmd, &o.files)
	return cmd
}

func runValidate(o *validateOptions) error {
	docs, err := readDocuments(o.io, o.files)
	if err != nil {
		return err
	}
	for _, doc := range docs {
		fmt.Fprintf(o.io.Out, "%s: %s/%s is valid\n", doc.file, doc.Kind, doc.Name)
	}
	return nil
}
