package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/doctor"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/supportbundle"
)

type supportOptions struct {
	factory *Factory
	file    string
	dryRun  bool
}

func newSupportBundleCmd(f *Factory) *cobra.Command {
	o := &supportOptions{factory: f}
	cmd := &cobra.Command{
		Use:   "support-bundle",
		Short: "Write what a maintainer asks for into one file, without secrets",
		Long: "Write what a maintainer asks for into one file, a .tar.gz: versions, what gpuctl doctor says, nodes, pools, what\n" +
			"waits, warnings, the configuration of our programs, the end of their logs, and their metrics where they tell them\n" +
			"to the API server. --dry-run lists it.\n\n" +
			"No Secret is read. Values of variables, and commands, arguments and annotations of others are left out, and\n" +
			"so is all that looks like a token, a password or a key, in logs and events, too, as far as patterns find it.\n" +
			"Names of namespaces, jobs, nodes and images stay: look at the file before you send it. What you may not read\n" +
			"is left out, and index.json in the file says so.",
		Example: "  gpuctl support-bundle --dry-run\n  gpuctl support-bundle --file /tmp/for-support.tar.gz",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.writeBundle(cmd.Context()) },
	}
	cmd.Flags().StringVar(&o.file, "file", "", "File to write, which must not be there yet (default gpuctl-support-TIME.tar.gz)")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "List what would be taken, and read nothing")
	return cmd
}

func (o *supportOptions) writeBundle(ctx context.Context) error {
	if o.dryRun {
		o.printContents()
		return nil
	}
	now := o.factory.Now()
	if o.file == "" {
		o.file = "gpuctl-support-" + now.UTC().Format("20060102-150405") + ".tar.gz"
	}
	if _, err := os.Lstat(o.file); !errors.Is(err, fs.ErrNotExist) {
		return usageErrorf("%s is there already: name another with --file, or remove it", o.file)
	}
	if folder, err := os.Stat(filepath.Dir(o.file)); err != nil || !folder.IsDir() {
		return usageErrorf("there is no folder %s to write to: make it, or name another file with --file", filepath.Dir(o.file))
	}
	bundler, err := o.newBundler(ctx)
	if err != nil {
		return err
	}
	more, err := o.clientEntries(ctx)
	if err != nil {
		return err
	}
	line := newStatusLine(o.factory.IO)
	defer line.endLine()
	bundler.Report = func(what phrase.Text) {
		line.setText(phrase.Textf("reading %s …", what).Localize(o.factory.outputLanguage()))
	}
	entries, err := o.writeFile(ctx, bundler, more)
	line.endLine()
	if err != nil {
		return err
	}
	o.printResult(entries)
	return nil
}

// newBundler returns a Bundler for the cluster; the caller sets Report.
func (o *supportOptions) newBundler(ctx context.Context) (*supportbundle.Bundler, error) {
	client, err := o.factory.newKubernetesClient()
	if err != nil {
		return nil, err
	}
	server, err := doctor.ServerNamespace(ctx, client)
	if err != nil {
		return nil, err
	}
	return &supportbundle.Bundler{REST: client.Discovery().RESTClient(), Now: o.factory.Now, Server: server}, nil
}

// clientEntries returns what gpuctl itself knows about the cluster.
func (o *supportOptions) clientEntries(ctx context.Context) (map[string]any, error) {
	namespace, err := o.factory.currentNamespace()
	if err != nil {
		return nil, err
	}
	client, err := o.factory.newKubernetesClient()
	if err != nil {
		return nil, err
	}
	checks, err := o.factory.checkCluster(ctx, client, namespace)
	if err != nil {
		return nil, err
	}
	server, err := (&versionOptions{factory: o.factory}).serverVersion()
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"version.json": versions{Client: clientVersion(), Server: server}, "doctor.json": list[doctor.Check]{Items: checks},
	}, nil
}

// writeFile writes a temporary file first, so that the result is complete or absent.
func (o *supportOptions) writeFile(ctx context.Context, bundler *supportbundle.Bundler, more map[string]any) (entries []supportbundle.Entry, err error) {
	file, err := os.CreateTemp(filepath.Dir(o.file), ".gpuctl-support-*")
	if err != nil {
		return nil, phrase.Errorf("writing %s: %w", o.file, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	entries, err = bundler.Write(ctx, file, more)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, phrase.Errorf("writing %s: %w", o.file, err)
	}
	if err = os.Link(file.Name(), o.file); err != nil { // a link never replaces an existing file
		return nil, phrase.Errorf("writing %s: %w", o.file, err)
	}
	return entries, os.Remove(file.Name())
}

func (o *supportOptions) printContents() {
	row := func(file string, what phrase.Text) {
		fmt.Fprintf(o.factory.IO.Out, "%-34s %s\n", file, what.Localize(o.factory.outputLanguage()))
	}
	row("version.json", phrase.Textf("the versions of gpuctl and of the cluster"))
	row("doctor.json", phrase.Textf("what gpuctl doctor says"))
	for _, item := range supportbundle.Items(doctor.ServerName) {
		row(item.Name, item.Message())
	}
	row("logs/", phrase.Textf("the end of the logs of our pods, and before they were started again"))
	row("metrics/", phrase.Textf("the metrics of our pods, where they let the API server read them"))
	row("index.json", phrase.Textf("what is in the bundle, and what could not be read"))
}

func (o *supportOptions) printResult(entries []supportbundle.Entry) {
	d := newDescription(o.factory.IO)
	left := 0
	for _, entry := range entries {
		if entry.Error != "" {
			left++
			d.writeWrapped(phrase.Textf("left out %s: %s", entry.Name, phrase.FromEnglish(entry.Error)).Localize(d.language), 2)
		}
	}
	d.writeWrapped(phrase.Textf("wrote %s: %d files, %d left out. Look at it before you send it.", o.file, len(entries)-left, left).Localize(d.language), 2)
}
