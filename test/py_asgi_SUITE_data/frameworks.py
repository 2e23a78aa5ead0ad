"""The same site four times: with Starlette, FastAPI, Django and Quart."""

import asyncio
import contextlib
import threading

import django
import fastapi
import quart
from django.conf import settings
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route, WebSocketRoute

events = []


@contextlib.asynccontextmanager
async def lifespan(app):
    events.append("up")
    yield {"answer": 42}
    events.append("down")


async def pieces():
    for number in range(50):
        yield b"%d," % number
        await asyncio.sleep(0)


async def hello(request):
    return JSONResponse(
        {
            "name": request.path_params["name"],
            "q": request.query_params.get("q"),
            "state": request.state.answer,
            "accept": request.headers.getlist("accept"),
        },
        background=BackgroundTask(events.append, "background"),
    )


async def echo(request):
    return JSONResponse({"size": len(await request.body())})


def sync(request):
    return JSONResponse({"main": threading.current_thread().name.startswith("AnyIO")})


async def stream(request):
    return StreamingResponse(pieces())


async def socket(websocket):
    await websocket.accept()
    async for text in websocket.iter_text():
        await websocket.send_text(text.upper())


starlette_app = Starlette(
    routes=[
        Route("/hello/{name}", hello),
        Route("/echo", echo, methods=["POST"]),
        Route("/sync", sync),
        Route("/stream", stream),
        WebSocketRoute("/socket", socket),
    ],
    lifespan=lifespan,
)

fastapi_app = fastapi.FastAPI(lifespan=lifespan)


@fastapi_app.get("/hello/{name}")
async def fastapi_hello(name: str, request: fastapi.Request, q: str | None = None) -> dict:
    return {"name": name, "q": q, "state": request.state.answer, "accept": request.headers.getlist("accept")}


@fastapi_app.post("/echo")
async def fastapi_echo(request: fastapi.Request) -> dict:
    return {"size": len(await request.body())}


@fastapi_app.get("/sync")
def fastapi_sync() -> dict:
    return {"main": threading.current_thread().name.startswith("AnyIO")}


@fastapi_app.get("/stream")
async def fastapi_stream() -> StreamingResponse:
    return StreamingResponse(pieces())


@fastapi_app.websocket("/socket")
async def fastapi_socket(websocket: fastapi.WebSocket) -> None:
    await socket(websocket)


quart_app = quart.Quart("site")


@quart_app.get("/hello/<name>")
async def quart_hello(name):
    return {"name": name, "q": quart.request.args.get("q"), "accept": quart.request.headers.getlist("accept")}


@quart_app.post("/echo")
async def quart_echo():
    return {"size": len(await quart.request.get_data())}


@quart_app.get("/stream")
async def quart_stream():
    return pieces(), 200


@quart_app.websocket("/socket")
async def quart_socket():
    while True:
        await quart.websocket.send((await quart.websocket.receive()).upper())


settings.configure(ROOT_URLCONF=__name__, SECRET_KEY="of tests", ALLOWED_HOSTS=["*"], DEBUG=False)
django.setup()

from django.core.asgi import get_asgi_application  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.http import JsonResponse, StreamingHttpResponse  # noqa: E402
from django.urls import path  # noqa: E402


async def django_hello(request, name):
    return JsonResponse({"name": name, "q": request.GET.get("q"), "accept": [request.headers.get("accept")]})


def django_sync_hello(request, name):
    return JsonResponse({"name": name, "q": request.GET.get("q"), "accept": [request.headers.get("accept")]})


async def django_echo(request):
    return JsonResponse({"size": len(request.body)})


async def django_stream(request):
    return StreamingHttpResponse(pieces())


urlpatterns = [
    path("hello/<str:name>", django_hello),
    path("sync/<str:name>", django_sync_hello),
    path("echo", django_echo),
    path("stream", django_stream),
]
django_app = get_asgi_application()
django_wsgi_app = get_wsgi_application()
