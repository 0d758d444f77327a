// Command image builds the container images of the project as OCI archives from static programs alone: without a Docker engine or a base image. The
// same source and toolchain give the same digests. See make image.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"g8s.host/gpu-scheduler/hack/tools/release/bom"
	"g8s.host/gpu-scheduler/hack/tools/release/build"
)

type options struct {
	builder build.Builder
	// out is the folder of the archives. The programs in them are below it while they are packed.
	out               string
	registry, version string
	platforms         []build.Platform
	images            []spec
	epoch             int64
	push              bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o, err := parseOptions(os.Args[1:])
	if err == nil {
		err = buildImages(ctx, o)
	}
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func parseOptions(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.StringVar(&o.builder.Root, "root", ".", "The project's folder")
	flags.StringVar(&o.builder.LDFlags, "ldflags", "", "Flags of the linker")
	flags.StringVar(&o.out, "out", "bin/images", "Where the archives go")
	flags.StringVar(&o.registry, "registry", "registry.example.com/g8s", "The images are REGISTRY/NAME:VERSION")
	flags.StringVar(&o.version, "version", "dev", "The images' tag")
	flags.Int64Var(&o.epoch, "epoch", 0, "The time of all files, in seconds since 1970")
	flags.BoolVar(&o.push, "push", false, "Send the images to the registry, with the credentials of docker login")
	platforms := flags.String("platforms", "linux/amd64,linux/arm64", "What they run on")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	for text := range strings.SplitSeq(*platforms, ",") {
		platform, err := build.ParsePlatform(text)
		if err != nil {
			return nil, err
		}
		o.platforms = append(o.platforms, platform)
	}
	o.images = slices.DeleteFunc(slices.Clone(specs), func(s spec) bool {
		return s.onRequest && flags.NArg() == 0 || flags.NArg() > 0 && !slices.Contains(flags.Args(), s.name)
	})
	if flags.NArg() > 0 && len(o.images) != flags.NArg() {
		return nil, fmt.Errorf("images %v: some of these are not made here", flags.Args())
	}
	out, err := filepath.Abs(o.out)
	o.out, o.builder.Out = out, filepath.Join(out, ".programs")
	return o, err
}

// buildImages builds all images and prints their digests; values.yaml contains them for the chart.
func buildImages(ctx context.Context, o *options) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err // the error names the folder
	}
	defer func() { _ = os.RemoveAll(o.builder.Out) }()
	var values strings.Builder
	fmt.Fprintf(&values, "# For the chart: helm install -f values.yaml\n"+
		"# gpu-agent is by its tag: make image-docker makes its image, with NVIDIA's library.\nimage:\n  registry: %s\n  tag: %s\n", o.registry, o.version)
	for i := range o.images {
		s := &o.images[i]
		fmt.Fprintf(os.Stderr, "making %s (%d of %d)\n", s.name, i+1, len(o.images))
		if s.note != "" {
			fmt.Fprintf(os.Stderr, "note: %s: %s\n", s.name, s.note)
		}
		reference, err := name.NewTag(o.registry + "/" + s.name + ":" + o.version)
		if err != nil {
			return err // the error names the reference
		}
		index, err := o.buildImage(ctx, s, reference)
		if err != nil {
			return err
		}
		digest, err := index.Digest()
		if err != nil {
			return err
		}
		fmt.Printf("%s@%s\n", reference.Context().Name(), digest)
		if part, isComponent := components[s.name]; isComponent {
			fmt.Fprintf(&values, "%s:\n  image: {digest: %q}\n", part, digest)
		}
		if o.push {
			if err := remote.WriteIndex(reference, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
				return fmt.Errorf("sending %s: %w", reference, err)
			}
		}
	}
	return os.WriteFile(filepath.Join(o.out, "values.yaml"), []byte(values.String()), 0o644)
}

// components maps images to their names in the chart's values.
var components = map[string]string{
	"gpu-scheduler": "scheduler", "gpu-controller": "controller", "gpuctl-server": "server", "gpu-ledger": "ledger",
}

// buildImage builds the programs of one image and writes its archive, and the list of its components.
func (o *options) buildImage(ctx context.Context, s *spec, reference name.Tag) (v1.ImageIndex, error) {
	when := time.Unix(o.epoch, 0).UTC()
	var images []platformImage
	var all []string
	for _, platform := range o.platforms {
		var programs []string
		for _, program := range s.programNames() {
			path, err := o.builder.Program(ctx, program, platform)
			if err != nil {
				return nil, err
			}
			programs = append(programs, path)
		}
		image, err := composeImage(s, platform, programs, o.version, when)
		if err != nil {
			return nil, fmt.Errorf("composing %s for %s: %w", s.name, platform, err)
		}
		images, all = append(images, platformImage{platform, image}), append(all, programs...)
	}
	index := buildIndex(images)
	if err := writeArchive(filepath.Join(o.out, s.name+".tar"), reference, index, when); err != nil {
		return nil, err
	}
	out, err := os.Create(filepath.Join(o.out, s.name+".cdx.json"))
	if err != nil {
		return nil, err // the error names the file
	}
	err = bom.Write(out, s.name, o.version, cdx.ComponentTypeContainer, all...)
	return index, errors.Join(err, out.Close())
}
