# One image a binary: docker build --build-arg BINARY=gpu-scheduler .
FROM golang:1.26 AS build
ARG BINARY
ARG LDFLAGS=""
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w ${LDFLAGS}" -o /binary ./cmd/${BINARY}

FROM gcr.io/distroless/static:nonroot
COPY --from=build /binary /usr/local/bin/app
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/app"]
