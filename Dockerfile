# One image a binary: docker build --build-arg BINARY=gpu-scheduler .
# Tags can change. A release names what it is built on by digest: make image BUILD_IMAGE=golang:1.26@sha256:… BASE_IMAGE=…
ARG BUILD_IMAGE=golang:1.26
ARG BASE_IMAGE=gcr.io/distroless/static:nonroot

FROM ${BUILD_IMAGE} AS build
ARG BINARY
ARG LDFLAGS=""
# gpu-agent loads NVIDIA's library, so it needs cgo, a base image with glibc, and root.
ARG CGO_ENABLED=0
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=${CGO_ENABLED} go build -trimpath -tags netgo,osusergo -ldflags "-s -w ${LDFLAGS}" -o /out/app ./cmd/${BINARY}
# gpuctl, its server and the controller run the scheduler's code as a process of its own, to say where a job would go.
RUN case "${BINARY}" in gpuctl*|gpu-controller) \
      CGO_ENABLED=0 go build -trimpath -ldflags "-s -w ${LDFLAGS}" -o /out/gpu-scheduler ./cmd/gpu-scheduler;; esac

FROM ${BASE_IMAGE}
ARG RUN_AS=65532:65532
COPY --from=build /out/ /usr/local/bin/
USER ${RUN_AS}
ENTRYPOINT ["/usr/local/bin/app"]
