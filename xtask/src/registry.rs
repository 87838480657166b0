//! A read-only image registry for the nodes of a cluster: manifests that say plain `image: busybox` run
//! unchanged, and nobody asks the world.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Method, Request, Response, StatusCode};
use devcluster::image::store::Store;
use devcluster::registry::{Answer, answer};
use tokio_util::io::ReaderStream;

#[derive(clap::Args)]
pub struct Options {
    /// Address and port.
    #[arg(long)]
    listen: SocketAddr,
    /// Directory of the image store.
    #[arg(long)]
    store: PathBuf,
}

#[tokio::main(flavor = "current_thread")]
pub async fn run(options: &Options) -> anyhow::Result<()> {
    let store = Arc::new(Store::at(&options.store)?);
    let listener = tokio::net::TcpListener::bind(options.listen)
        .await
        .with_context(|| format!("cannot listen on {}", options.listen))?;
    let router = Router::new().fallback(serve).with_state(store);
    axum::serve(listener, router)
        .await
        .context("the registry ended")
}

async fn serve(State(store): State<Arc<Store>>, request: Request<Body>) -> Response<Body> {
    let uri = request.uri();
    let namespace = uri
        .query()
        .and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("ns=")));
    match answer(&store, uri.path(), namespace) {
        Answer::Version => plain(StatusCode::OK),
        Answer::Unknown => plain(StatusCode::NOT_FOUND),
        Answer::File {
            path,
            media_type,
            digest,
        } => send(path, media_type, &digest, request.method() == Method::HEAD)
            .await
            .unwrap_or_else(|_| plain(StatusCode::NOT_FOUND)),
    }
}

async fn send(
    path: PathBuf,
    media_type: &str,
    digest: &str,
    head: bool,
) -> anyhow::Result<Response<Body>> {
    let file = tokio::fs::File::open(path).await?;
    let size = file.metadata().await?.len();
    let body = if head {
        Body::empty()
    } else {
        Body::from_stream(ReaderStream::new(file))
    };
    let response = Response::builder()
        .header("Content-Type", media_type)
        .header("Content-Length", size)
        .header("Docker-Content-Digest", digest)
        .body(body)?;
    Ok(response)
}

fn plain(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}
