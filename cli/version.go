package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

type versionOptions struct {
	factory *Factory
	client  bool
	output  *output
}

// versions is what the version command shows.
type versions struct {
	Client buildVersion  `json:"client"`
	Server *buildVersion `json:"server,omitempty"`
}

type buildVersion struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Go       string `json:"go,omitempty"`
	Platform string `json:"platform,omitempty"`
}

func newVersionCmd(f *Factory) *cobra.Command {
	o := &versionOptions{factory: f, output: newOutput("", outputJSON, outputYAML)}
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the versions of gpuctl and of the cluster",
		Example: "  gpuctl version\n  gpuctl version --client -o json",
		Args:    noArgs,
		RunE:    func(*cobra.Command, []string) error { return runVersion(o) },
	}
	cmd.Flags().BoolVar(&o.client, "client", false, "Print gpuctl's own version only, without asking the cluster")
	o.output.addTo(cmd)
	return cmd
}

// runVersion prints gpuctl's version even if the cluster does not answer.
func runVersion(o *versionOptions) error {
	out := versions{Client: clientVersion()}
	var err error
	if !o.client {
		out.Server, err = o.serverVersion()
	}
	if printErr := o.printVersions(out); printErr != nil {
		return printErr
	}
	return err
}

func (o *versionOptions) printVersions(out versions) error {
	if o.output.format != "" {
		return writeEncoded(o.factory.IO.Out, o.output.format, out)
	}
	fmt.Fprintf(o.factory.IO.Out, "gpuctl      %s (%s)\n", out.Client.Version, out.Client.Go)
	if out.Server != nil {
		fmt.Fprintf(o.factory.IO.Out, "Kubernetes  %s\n", out.Server.Version)
	}
	return nil
}

func (o *versionOptions) serverVersion() (*buildVersion, error) {
	clientset, err := o.factory.newKubernetesClient()
	if err != nil {
		return nil, err
	}
	info, err := clientset.Discovery().ServerVersion()
	if err != nil {
		return nil, phrase.Errorf("asking the cluster for its version: %w", err)
	}
	return &buildVersion{Version: info.GitVersion, Commit: info.GitCommit, Go: info.GoVersion, Platform: info.Platform}, nil
}

// version is the release version, which the linker sets: -X g8s.host/gpu-scheduler/cli.version=v1.0.0.
var version string

// clientVersion returns what the Makefile and the Go toolchain recorded when they built this binary.
func clientVersion() buildVersion {
	out := buildVersion{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return out
	}
	out.Version = cmp.Or(version, info.Main.Version, out.Version)
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			out.Commit = setting.Value
		}
	}
	return out
}
